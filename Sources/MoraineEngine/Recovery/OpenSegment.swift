import MoraineFormat
import MoraineStorage

/// A segment that nobody sealed: where it ends, and how much of it is proven durable.
struct OpenSegment {
  let slot: Int
  let name: String
  let end: Int
  let provenEnd: Int
  let hasFooter: Bool
  let isEmpty: Bool
  /// Whether replaying has passed all that was ever written to it; only then may a later segment
  /// count.
  var isWhole = false

  /// Replays it and judges its end: a torn write, or lost data.
  ///
  /// - Parameter before: the open segment ahead of it, which has its footer.
  static func replay(
    _ entry: Manifest.Segment, behind before: OpenSegment?, opened known: SegmentOpening.Opened?,
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
    if let before { try before.checkSuccessor(opened.header, name, &state) }
    state.lastSequence = max(state.lastSequence, opened.lastSequence)
    let scanner = SegmentScanner(
      source: opened.source, name: name, seed: opened.header.checksumSeed, offset: start)
    var replay = Replay(slot: slot, name: name, scanner: scanner)
    let result = try replay.run(&state)
    state.table[slot].end = result.validEnd
    let end = result.validEnd
    // A checkpoint may cover the footer too.
    let hasFooter = try scanner.hasFooter(before: end)
    try judge(result, scanner, name, state.manifest, entry, &report)
    let watermark =
      state.manifest.watermarkSegment == entry.number.rawValue ? state.manifest.watermarkOffset : 0
    // A checkpoint is written when what it covers is durable.
    let proven = Int(clamping: max(watermark, result.promise, UInt64(start)))
    report.replayedBytes += UInt64(end - start)
    return OpenSegment(
      slot: slot, name: name, end: end,
      provenEnd: min(max(proven, opened.header.headerLength), end),
      hasFooter: hasFooter, isEmpty: state.table[slot].recordCount == 0,
      isWhole: result.hasFooter)
  }

  /// Takes out of use a segment behind one that a power failure cut: nothing counts behind a hole.
  ///
  /// - Throws: `.corrupted` when it promises that the one before was durable.
  static func drop(
    _ entry: Manifest.Segment, behind before: OpenSegment?, opened known: SegmentOpening.Opened?,
    _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) -> OpenSegment {
    let name = entry.number.fileName
    guard known == nil else {
      throw .corrupted("the index checkpoint covers what the log does not hold", name, at: 0)
    }
    let length = try length(state.directory, name)
    let opened = try SegmentOpening.add(entry, &state, length: length)
    let (slot, source, header) = (opened.slot, opened.source, opened.header)
    let scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    // A mark in here was written after the segment before had become durable as a whole.
    let promise = try scanner.farthestPromise(from: header.headerLength)
    guard promise == 0, state.manifest.watermarkSegment != entry.number.rawValue else {
      throw .corrupted(
        "the segment ends without its footer, yet \(name) promises that it was durable",
        before?.name ?? name, at: before?.end ?? 0)
    }
    let written = try scanner.lastWritten(from: header.headerLength)
    report.tornBytes += UInt64(written - header.headerLength)
    return OpenSegment(
      slot: slot, name: name, end: header.headerLength, provenEnd: header.headerLength,
      hasFooter: false, isEmpty: true)
  }

  /// The next segment knows where this one ended.
  private func checkSuccessor(
    _ header: SegmentHeader, _ name: String, _ state: inout EngineState
  ) throws(StoreError) {
    let number = state.table.infos[slot].number.rawValue
    let last = header.predecessor.lastSequence.rawValue
    guard header.predecessor.number == number, header.predecessor.lengthBytes == UInt64(end),
      last >= state.lastSequence
    else {
      throw .corrupted(
        "it does not follow the segment before it, which ends at \(end)", name, at: 48)
    }
    // A failed operation may have used up numbers behind the last record.
    state.lastSequence = last
  }

  private static func length(
    _ directory: any StorageDirectory, _ name: String
  ) throws(StoreError) -> Int {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    return Int(clamping: try storing { () throws(StorageError) in try file?.lengthBytes() ?? 0 })
  }

  /// A place without a record is the end of a torn log, unless something vouches for more.
  private static func judge(
    _ result: ReplayResult, _ scanner: SegmentScanner, _ name: String, _ manifest: Manifest,
    _ entry: Manifest.Segment, _ report: inout RecoveryReport
  ) throws(StoreError) {
    let end = result.validEnd
    var promised = result.promise
    if manifest.watermarkSegment == entry.number.rawValue {
      promised = max(promised, manifest.watermarkOffset)
    }
    if !result.hasFooter { promised = max(promised, try scanner.farthestPromise(from: end)) }
    guard promised <= UInt64(end) else {
      let stop = result.stop ?? (end, "the file ends")
      throw .corrupted(
        "\(stop.reason), yet the log promises that \(promised) bytes were durable", name,
        at: stop.offset)
    }
    guard !result.hasFooter else { return }
    let written = try scanner.lastWritten(from: end)
    guard written > end else { return }
    report.tornSegment = entry.number
    report.tornOffset = UInt64(end)
    report.tornBytes = UInt64(written - end)
  }

  /// Writes what nothing has proved durable once more, the same bytes in the same places, and syncs
  /// it. After a sync that failed in an earlier life the file cache may show bytes that the disk
  /// does not hold, and forget that it should write them; written again, they are to be synced
  /// again.
  func makeDurable(
    _ directory: any StorageDirectory, _ report: inout RecoveryReport
  ) throws(StoreError) {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .readWrite) }
    guard let file else { throw .corrupted("the file vanished", name, at: 0) }
    let chunk = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
    defer { chunk.deallocate() }
    var offset = provenEnd
    report.resyncedBytes += UInt64(end - offset)
    try storing { () throws(StorageError) in
      // Before the manifest says that it is sealed: then its length must be the one that it names.
      try file.truncate(to: UInt64(end))
      while offset < end {
        let part = UnsafeMutableRawBufferPointer(
          rebasing: chunk[..<Swift.min(chunk.count, end - offset)])
        let got = try file.read(into: part, at: UInt64(offset))
        try file.write(UnsafeRawBufferPointer(rebasing: part[..<got]), at: UInt64(offset))
        if got == 0 { break }
        offset += got
      }
      try file.synchronize(.full)
      try directory.synchronize()
    }
  }
}
