import MoraineFormat
import MoraineStorage
import SystemPackage

/// A segment that is not sealed: its end, and the part of it that is known to be durable.
struct OpenSegment {
  let slot: Int
  let name: String
  /// Seed of the checksums of the records.
  let seed: Checksum
  /// Offset at which replaying began: a record begins here, or the log ends.
  let start: Int
  let end: Int
  let knownDurableEnd: Int
  let hasFooter: Bool
  let isEmpty: Bool
  /// Whether replaying has passed everything that was ever written to the segment. Only then may a
  /// later segment count.
  var isComplete = false

  /// Replays the segment and classifies its end: a torn write, or lost data.
  ///
  /// - Parameter before: the open segment before it, which has its footer.
  static func replay(
    _ entry: Manifest.Segment, after before: OpenSegment?, opened known: SegmentOpening.Opened?,
    _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) -> OpenSegment {
    let name = entry.number.fileName
    let opened: SegmentOpening.Opened
    if let known {
      opened = known
    } else {
      opened = try SegmentOpening.add(entry, &state, length: try length(state.directory, name))
    }
    let (slot, start) = (opened.slot, opened.start)
    try opened.checkFigures(state.log.table[slot], of: state.checkpointNames.first)
    // A segment that was created ahead of need does not know how the segment before it ends. That
    // its records follow is checked when they are replayed.
    if let before, opened.header.predecessor != .none {
      try before.checkSuccessor(opened.header, name, &state)
    }
    state.log.lastSequence = max(state.log.lastSequence, opened.lastSequence)
    guard let source = opened.source else {
      fatalError("a segment to replay has no source of bytes")
    }
    let scanner = SegmentScanner(
      source: source, name: name, seed: opened.header.checksumSeed, offset: start)
    var replay = Replay(slot: slot, name: name, scanner: scanner)
    let result = try replay.run(&state)
    state.log.table[slot].end = result.validEnd
    let end = result.validEnd
    // A checkpoint may cover the footer too.
    let hasFooter = try scanner.hasFooter(before: end)
    let watermark = state.log.manifest.watermark(of: entry.number)
    let verdict = try TailVerdict(result, scanner, name: name, watermark: watermark)
    if verdict.tornBytes > 0 {
      report.tornSegment = entry.number
      report.tornOffset = UInt64(end)
      report.tornBytes = UInt64(verdict.tornBytes)
    }
    // A checkpoint is written only when the records that it covers are durable.
    let durable = Int(clamping: max(watermark, result.promise, UInt64(start)))
    report.replayedBytes += UInt64(end - start)
    return OpenSegment(
      slot: slot, name: name, seed: opened.header.checksumSeed, start: start, end: end,
      knownDurableEnd: min(max(durable, opened.header.headerLength), end),
      hasFooter: hasFooter, isEmpty: state.log.table[slot].recordCount == 0,
      isComplete: hasFooter)
  }

  /// Drops a segment that follows a segment cut by a power failure: nothing counts after a gap.
  ///
  /// - Throws: `.corrupted` when the segment promises that the one before it was durable.
  static func drop(
    _ entry: Manifest.Segment, after before: OpenSegment?, opened known: SegmentOpening.Opened?,
    _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) -> OpenSegment {
    let name = entry.number.fileName
    guard known == nil else {
      throw .indexDamaged(
        "the index checkpoint covers records that \(name) does not contain",
        state.checkpointNames.first)
    }
    let length = try length(state.directory, name)
    let opened = try SegmentOpening.add(entry, &state, length: length)
    let (slot, header) = (opened.slot, opened.header)
    guard let source = opened.source else {
      fatalError("a segment to search has no source of bytes")
    }
    let scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    // A mark in this segment was written after the whole segment before it had become durable.
    let promise = try scanner.farthestPromise(from: header.headerLength)
    guard promise == 0, state.log.manifest.watermarkSegment != entry.number.rawValue else {
      throw .corrupted(
        "the segment has no footer, but \(name) confirms that it was durable",
        before?.name ?? name, at: before?.end ?? 0)
    }
    let written = try scanner.lastWritten(from: header.headerLength)
    report.tornBytes += UInt64(written - header.headerLength)
    return OpenSegment(
      slot: slot, name: name, seed: header.checksumSeed, start: header.headerLength,
      end: header.headerLength, knownDurableEnd: header.headerLength, hasFooter: false,
      isEmpty: true)
  }

  /// Checks that the header of the next segment names this segment and its end.
  private func checkSuccessor(
    _ header: SegmentHeader, _ name: String, _ state: inout EngineState
  ) throws(StoreError) {
    let number = state.log.table.infos[slot].number.rawValue
    let last = header.predecessor.lastSequence.rawValue
    guard header.predecessor.number == number, header.predecessor.lengthBytes == UInt64(end),
      last >= state.log.lastSequence
    else {
      throw .corrupted(
        "the header does not match the end of the previous segment, byte \(end)", name, at: 48)
    }
    // A failed operation may have used up sequence numbers after the last record.
    state.log.lastSequence = last
  }

  private static func length(
    _ directory: any StorageDirectory, _ name: String
  ) throws(StoreError) -> Int {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    return Int(clamping: try storing { () throws(StorageError) in try file?.lengthBytes() ?? 0 })
  }
}

/// Functions that make an open segment durable.
///
/// A sync may have failed in a process that ran before. Then the file cache may show bytes that the
/// disk does not hold, and treat them as written. To write the same bytes again in place does not
/// repair that: ext4 writes the blocks, `fdatasync` succeeds, and the extent stays marked as
/// unwritten, so that it reads as zeros once the cache is gone. A new file has no such past: the
/// whole segment is copied into one, which takes over the name. Number, addresses, salt and
/// checksums stay the same, and other processes keep the old file as long as they have it open.
///
/// A crash at any call leaves the old file or the new one under the name. The manifest lists either
/// as open, until both file and name are durable.
extension OpenSegment {
  /// Makes the segment durable up to its end, and cuts its file there.
  ///
  /// - Parameter reserve: released when a full disk has no space for the copy.
  /// - Returns: whether the name leads to a new file, which readers of the segment must open.
  /// - Throws: `.noSpace` when there is no space for a copy, and the medium is not known to hold
  ///   the old file's bytes; `.io`.
  func makeDurable(
    _ directory: any StorageDirectory, _ reserve: inout Reserve, _ report: inout RecoveryReport
  ) throws(StoreError) -> Bool {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .readWrite) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    guard knownDurableEnd < end else {
      try storing { () throws(StorageError) in
        try file.truncate(to: UInt64(end))
        try file.synchronize(.full)
      }
      return false
    }
    report.resyncedBytes += UInt64(end - knownDurableEnd)
    if try replaceFile(file, directory) { return true }
    // The space allocated ahead of the records may be the space that the copy needs.
    try storing { () throws(StorageError) in try file.truncate(to: UInt64(end)) }
    if try replaceFile(file, directory) { return true }
    // Another process may keep the old file's blocks, and a manifest must be written after this.
    if reserve.lengthBytes > Self.keptBytes {
      try storing { () throws(StorageError) in try reserve.shrink(to: Self.keptBytes) }
      if try replaceFile(file, directory) { return true }
    }
    if try mediumHolds(file) { return false }
    if reserve.lengthBytes > 0 {
      try storing { () throws(StorageError) in try reserve.release() }
      if try replaceFile(file, directory) { return true }
    }
    throw StoreError(
      .noSpace,
      "the disk is full, and the last writes of an unclean stop must be copied before the "
        + "store can be opened; free \(end) bytes, and open it again",
      file: name, errno: .noSpace)
  }

  /// Bytes of the reserve that the copy leaves for a manifest.
  static let keptBytes = 4 * FileBlock.lengthBytes

  /// Copies the segment into a new file, and renames that file to the segment's name.
  ///
  /// - Returns: false when there is no space; nothing has changed then.
  private func replaceFile(
    _ file: any StorageFile, _ directory: any StorageDirectory
  ) throws(StoreError) -> Bool {
    let temporary = FileName.temporarySegment
    do throws(StoreError) {
      let copy = try storing { () throws(StorageError) in
        try directory.remove(temporary)
        return try directory.createFile(temporary)
      }
      try copyBytes(of: file, to: copy)
      try checkRecords(of: copy)
      try storing { () throws(StorageError) in try copy.synchronize(.full) }
    } catch {
      // The next opening removes the file if it cannot be removed now.
      do throws(StorageError) { try directory.remove(temporary) } catch {}
      if error.code == .noSpace { return false }
      throw error
    }
    try storing { () throws(StorageError) in
      try directory.rename(temporary, to: name)
      try directory.synchronize()
    }
    return true
  }

  private static let chunkBytes = 1 << 20

  private func copyBytes(
    of file: any StorageFile, to copy: any StorageFile
  ) throws(StoreError) {
    let chunk = UnsafeMutableRawBufferPointer.allocate(
      byteCount: min(Self.chunkBytes, end), alignment: 16)
    defer { chunk.deallocate() }
    try storing { () throws(StorageError) in
      var offset = 0
      while offset < end {
        let part = UnsafeMutableRawBufferPointer(
          rebasing: chunk[..<min(chunk.count, end - offset)])
        let count = try file.read(into: part, at: UInt64(offset))
        if count == 0 { return }
        try copy.write(UnsafeRawBufferPointer(rebasing: part[..<count]), at: UInt64(offset))
        offset += count
      }
    }
  }

  /// Checks that the copy contains the records that were replayed: the cache may have dropped pages
  /// since, and the disk may hold other bytes.
  private func checkRecords(of copy: any StorageFile) throws(StoreError) {
    let source = ByteSource(file: copy, name: name, length: end, mapping: nil)
    var scanner = SegmentScanner(source: source, name: name, seed: seed, offset: start)
    while true {
      switch try scanner.next() {
      case .record: continue
      case .end: return
      case .stop(let reason):
        throw StoreError(
          .io, "\(reason), but it was valid when it was read before; open the store again",
          file: name,
          offset: UInt64(scanner.offset))
      }
    }
  }

  /// Returns whether the medium holds the bytes that the cache shows. Then the old file suffices
  /// where a full disk has no space for a copy.
  private func mediumHolds(_ file: any StorageFile) throws(StoreError) -> Bool {
    try storing { () throws(StorageError) in try file.synchronize(.full) }
    let chunk = FileBlock.covering(min(Self.chunkBytes, end))
    let held = UnsafeMutableRawBufferPointer.allocate(
      byteCount: chunk, alignment: FileBlock.lengthBytes)
    let shown = UnsafeMutableRawBufferPointer.allocate(byteCount: chunk, alignment: 16)
    defer {
      held.deallocate()
      shown.deallocate()
    }
    var offset = knownDurableEnd & ~(FileBlock.lengthBytes - 1)
    while offset < end {
      let count = min(chunk, end - offset)
      let isHeld = try storing { () throws(StorageError) in
        let wanted = UnsafeMutableRawBufferPointer(rebasing: shown[..<count])
        guard try file.read(into: wanted, at: UInt64(offset)) == count,
          let heldCount = try file.readMedium(into: held, at: UInt64(offset)), heldCount >= count
        else { return false }
        return wanted.elementsEqual(held[..<count])
      }
      guard isHeld else { return false }
      offset += count
    }
    return true
  }
}

extension SegmentOpening.Opened {
  /// Checks the figures of a segment that is not sealed, before anything of it is replayed. They
  /// come from a checkpoint, and no manifest has any: a segment of which a checkpoint counts no
  /// record would be removed with its records, and any other wrong figure would be listed.
  ///
  /// A damaged or unreadable record ends the count, and refutes no checkpoint that counts more:
  /// without the checkpoint, the damage could pass for the end of the log.
  ///
  /// - Parameter checkpoint: the name of the checkpoint's file.
  /// - Throws: `.corrupted` when the checkpoint contradicts the records; the log is read without it
  ///   then.
  /// - Complexity: O(bytes of the segment that the checkpoint covers). After an unclean stop, and
  ///   when a process joins others: the last segment is the only one that is not sealed.
  func checkFigures(_ claim: SegmentView, of checkpoint: String?) throws(StoreError) {
    guard let source else { fatalError("a segment to check has no source of bytes") }
    let name = header.number.fileName
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    var counted = SegmentView(base: nil, end: header.headerLength, seed: header.checksumSeed)
    var isWhole = true
    while isWhole, scanner.offset < start {
      let step: SegmentScanner.Step
      do throws(StoreError) { step = try scanner.next() } catch {
        // Reading those records throws the error, and opening the store does not.
        guard error.code == .io else { throw error }
        isWhole = false
        continue
      }
      guard case .record(let record) = step else {
        isWhole = false
        continue
      }
      let header = record.reference.header
      guard header.kind.isOperation else { continue }
      counted.recordCount += 1
      counted.count(header.sequence)
    }
    let agrees =
      isWhole
      ? scanner.offset == start && counted.hasFigures(of: claim)
      : claim.recordCount >= max(1, counted.recordCount)
    guard agrees else {
      throw .indexDamaged("the index checkpoint miscounts the records of \(name)", checkpoint)
    }
  }
}

extension EngineState {
  /// Opens the file that the segment's name leads to now: recovery replaces the file of an unsealed
  /// segment by a copy.
  mutating func reopenFile(_ slot: Int, length: Int) throws(StoreError) {
    if log.active?.slot == slot { log.active = nil }
    log.table.files.forget(slot)
    guard log.table.infos[slot].mapping != nil else { return }
    let name = log.table.fileName(slot)
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let mapping = try SegmentFile.map(file, length)
    if mapping == nil { log.table.cache(file, for: slot) }
    log.table[slot].base = mapping?.base
    log.table.infos[slot].mapping = mapping
  }
}
