import MoraineFormat
import MoraineStorage
import SystemPackage

/// Builds the state from the log, and repairs the log so that the next run can trust it.
struct Recovery {
  let listing: DirectoryContents
  let opener: Opener
  /// The checkpoint to begin with; nil to begin with an empty index.
  let checkpoint: CheckpointPages?
  /// The number in the name of the checkpoint's file.
  let checkpointNumber: SegmentNumber?
  /// The segments that the checkpoint covers.
  let covered: [SegmentNumber: CheckpointHeader.Segment]
  /// How far other processes have published the log; they write while this recovery runs.
  let following: SharedPage.Publication?

  init(
    listing: DirectoryContents, opener: Opener, checkpoint: Opener.Checkpoint?,
    following: SharedPage.Publication? = nil
  ) {
    self.listing = listing
    self.opener = opener
    self.following = following
    self.checkpoint = checkpoint?.pages
    checkpointNumber = checkpoint?.number
    covered = Dictionary(
      (checkpoint?.pages.header.segments ?? []).map { ($0.number, $0) }, uniquingKeysWith: { $1 })
  }

  /// Whether the recovery leaves all files unchanged.
  var isReadOnly: Bool { opener.configuration.isReadOnly || following != nil }

  func run(_ state: inout EngineState, _ report: inout RecoveryReport) throws(StoreError) {
    let manifest = state.log.manifest
    report.wasClean = manifest.isClean
    state.log.reserve = Reserve(directory: state.directory, found: listing.reserveBytes)
    try checkPresence(manifest)
    try checkUnlisted(state, &report)
    try adoptCheckpoint(&state)
    var opened = try openCovered(&state)
    report.usedCheckpoint = checkpoint != nil
    for entry in manifest.segments where entry.isSealed {
      try replaySealed(entry, opened[entry.number], &state, &report)
    }
    var repairs: [OpenSegment] = []
    for entry in manifest.segments where !entry.isSealed {
      if let following, !following.takesAllUnits {
        try followOpen(entry, opened[entry.number], following, &state, &report)
        continue
      }
      let before = repairs.last
      repairs.append(
        before.map(\.isComplete) == false
          ? try OpenSegment.drop(
            entry, after: before, opened: opened[entry.number], &state, &report)
          : try OpenSegment.replay(
            entry, after: before, opened: opened[entry.number], &state, &report))
    }
    // The segments that the checkpoint covers were added before the others.
    state.log.table.arrange(by: manifest.segments.map(\.number))
    try state.checkStrayKeys()
    // The newest durable operation may be a delete that compaction dropped. `compactedThrough` also
    // counts operations that were written beside a compaction, and that no sync made durable.
    let logEnd = max(state.log.lastSequence, manifest.feedHorizon.rawValue)
    // Numbers up to here may belong to operations that a power failure removed. Beside other
    // processes they may belong to operations after the published end, which are read later.
    if following?.takesAllUnits ?? true {
      state.log.lastSequence = max(state.log.lastSequence, manifest.lastSequence.rawValue)
    }
    if manifest.isClean, opener.knowsDigest, manifest.digest != state.live.digest {
      throw .corrupted(
        "the state digest does not match the segments", Manifest.fileName, at: 128)
    }
    report.segmentCount = state.log.table.order.count
    report.recordCount = state.log.table.order.reduce(0) { $0 + state.log.table[$1].recordCount }
    report.lastSequence = SequenceNumber(rawValue: state.log.lastSequence)
    if let following {
      state.log.lastSequence = max(state.log.lastSequence, following.lastSequence)
      return
    }
    guard !isReadOnly else { return finish(&state) }
    // The files of the segments are closed here: a replaced file frees its blocks when its last
    // user closes it.
    opened = [:]
    if !manifest.isClean {
      // The log does not show whether an operation followed this place; a backup may contain it.
      state.log.manifest.addCut(
        after: SequenceNumber(rawValue: logEnd), id: SystemRandom.number())
    }
    try repair(repairs, &state, &report)
    finish(&state)
  }

  private func finish(_ state: inout EngineState) {
    // A reader syncs nothing: after an unclean stop it reports only the sealed segments as durable.
    let sealed =
      state.log.manifest.segments.filter(\.isSealed).map(\.lastSequence.rawValue).max() ?? 0
    let isKnownDurable = !isReadOnly || state.log.manifest.isClean
    state.pipeline.beginSegment(
      file: nil, sequence: isKnownDurable ? state.log.lastSequence : sealed, offset: 0)
  }

  private func replaySealed(
    _ entry: Manifest.Segment, _ known: SegmentOpening.Opened?, _ state: inout EngineState,
    _ report: inout RecoveryReport
  ) throws(StoreError) {
    let name = entry.number.fileName
    let length = Int(clamping: entry.lengthBytes)
    let actual = Int(clamping: listing.segments[entry.number] ?? 0)
    let isCut = entry.flags.contains(.cut)
    guard actual == length || (isCut && actual > length) else {
      throw .corrupted(
        "the segment has \(actual) bytes, but the manifest lists \(length)", name,
        at: min(actual, length))
    }
    let opened: SegmentOpening.Opened
    if let known {
      opened = known
    } else {
      opened = try SegmentOpening.add(entry, &state, length: length)
    }
    let slot = opened.slot
    state.log.table.infos[slot].flags = entry.flags
    state.log.lastSequence = max(state.log.lastSequence, opened.lastSequence)
    report.replayedBytes += UInt64(length - opened.start)
    if opened.start < length { try replay(opened, entry, name, &state) }
    guard state.log.table[slot].agrees(with: entry) else {
      throw .corrupted("the segment's records do not match its manifest entry", name, at: 0)
    }
    if actual > length, !isReadOnly { try cut(state.directory, name, to: length) }
  }

  /// Replays a sealed segment up to its end, which must be the end that the manifest lists.
  private func replay(
    _ opened: SegmentOpening.Opened, _ entry: Manifest.Segment, _ name: String,
    _ state: inout EngineState
  ) throws(StoreError) {
    guard let source = opened.source else {
      fatalError("a segment to replay has no source of bytes")
    }
    let scanner = SegmentScanner(
      source: source, name: name, seed: opened.header.checksumSeed, offset: opened.start)
    var replay = Replay(slot: opened.slot, name: name, scanner: scanner)
    let result = try replay.run(&state)
    if let stop = result.stop { throw .corrupted(stop.reason, name, at: stop.offset) }
    guard UInt64(result.validEnd) == entry.lengthBytes,
      result.hasFooter != entry.flags.contains(.cut)
    else {
      throw .corrupted(
        "the segment's end or footer does not match its manifest entry", name, at: result.validEnd)
    }
  }

  func cut(
    _ directory: any StorageDirectory, _ name: String, to length: Int
  ) throws(StoreError) {
    try storing { () throws(StorageError) in
      try directory.openFile(name, .readWrite)?.truncate(to: UInt64(length))
    }
  }

  /// Makes the tail durable, then publishes a manifest that says where each open segment
  /// ended.
  private func repair(
    _ open: [OpenSegment], _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    guard !open.isEmpty else { return }
    // A segment that was created ahead of need has space that the copy of a tail may need.
    for segment in open where segment.isEmpty {
      try cut(state.directory, segment.name, to: segment.end)
    }
    for segment in open where !segment.isEmpty {
      if try segment.makeDurable(state.directory, &state.log.reserve, &report) {
        try state.reopenFile(segment.slot, length: segment.end)
      }
      state.log.table.infos[segment.slot].flags.insert(.sealed)
      if !segment.hasFooter { state.log.table.infos[segment.slot].flags.insert(.cut) }
    }
    for segment in open where segment.isEmpty { state.log.table.drop(segment.slot) }
    let next = state.nextManifest()
    do throws(StoreError) {
      try state.log.publisher().publish(next)
    } catch {
      // On a full disk the reserve exists for this write: a store must open before it can be
      // cleaned.
      guard error.code == .noSpace, state.log.reserve.lengthBytes > 0 else { throw error }
      try storing { () throws(StorageError) in try state.log.reserve.release() }
      try state.log.publisher().publish(next)
    }
    // The copy of a tail has left this part of the reserve; deletes may need it now.
    if state.log.reserve.lengthBytes <= OpenSegment.keptBytes {
      try storing { () throws(StorageError) in try state.log.reserve.release() }
    }
    state.log.manifest = next
    for segment in open where segment.isEmpty {
      try storing { () throws(StorageError) in try state.directory.remove(segment.name) }
    }
  }
}

/// Functions that begin a recovery with a checkpoint.
///
/// The checkpoint was written after the last writer's opening, which removed every other one. So it
/// belongs to the past of this log, and not to a history that restoring a backup has undone. It may
/// be older than the last compaction. Its figures for segments that are still listed are valid:
/// these segments have not changed. Entries of segments that no longer exist are removed. The
/// records that were live in those segments were copied into segments that the checkpoint does not
/// cover, or are hidden by something newer; and a delete that hides a record leaves the log only
/// after the record's segment has left it. So the recovery reaches the state of the log: it replays
/// the records that are not covered, and never lets an older record replace a newer one.
extension Recovery {
  func adoptCheckpoint(_ state: inout EngineState) throws(StoreError) {
    guard let checkpoint else { return }
    let listed = Set(state.log.manifest.segments.map(\.number))
    let gone = checkpoint.header.segments.filter { !listed.contains($0.number) }
    let kept = checkpoint.header.segments.filter { listed.contains($0.number) }
    guard var index = try HashIndex(checkpoint),
      var trees = try TreeIndex(checkpoint, ordered: state.live.trees.ordered)
    else { throw damaged() }
    if !gone.isEmpty {
      guard index.validateAllPages(), trees.validateAllPages() else { throw damaged() }
      let slots = Set(gone.map { Int($0.slot) })
      index.removeAll(in: slots)
      trees.removeAll(in: slots)
    }
    state.live.adopt(index, trees, kept)
    guard !gone.isEmpty || state.live.digest == checkpoint.header.digest,
      agrees(state.log.manifest, kept),
      checkpoint.header.keyspaces?.allSatisfy({ state.keyspaces.contains($0.id) }) ?? true
    else { throw damaged() }
    state.live.adopt(
      keyspaces: gone.isEmpty ? checkpoint.header.keyspaces : nil,
      areNamesEmpty: state.keyspaces.isEmpty)
    state.log.table.keepSlots(Set(kept.map { Int($0.slot) }))
  }

  /// Compares the checkpoint's digest with the digest of a footer of the same moment, where the
  /// last segment that the checkpoint covers ends with such a footer.
  private func checkDigest(
    _ opened: SegmentOpening.Opened, _ name: String, _ manifest: Manifest
  ) throws(StoreError) {
    guard let source = opened.source, let header = checkpoint?.header else { return }
    let scanner = SegmentScanner(
      source: source, name: name, seed: opened.header.checksumSeed, offset: opened.start)
    guard let (footer, sequence) = try scanner.footer(before: opened.start),
      sequence == header.lastSequence, sequence > manifest.compactedThrough.rawValue
    else { return }
    guard footer.digest == header.digest else { throw damaged() }
  }

  /// Returns whether the checkpoint's figures can be those of the segments that the manifest lists.
  /// Compares only figures that cost nothing to compare.
  private func agrees(_ manifest: Manifest, _ kept: [CheckpointHeader.Segment]) -> Bool {
    let entries = manifest.entriesByNumber
    // The figures are of the same moment if nothing was written since.
    let isOfOneMoment =
      manifest.isClean && kept.count == manifest.segments.count
      && manifest.lastSequence.rawValue == checkpoint?.header.lastSequence
    return kept.allSatisfy { segment in
      guard let entry = entries[segment.number] else { return false }
      let isCompacted = entry.flags.contains(.compacted)
      return
        (segment.cleanedThrough == 0
        || (isCompacted && segment.cleanedThrough <= manifest.compactedThrough.rawValue))
        && (!isOfOneMoment || isCompacted || segment.endOffset != entry.lengthBytes
          || segment.liveBytes == entry.liveBytes)
    }
  }

  private func damaged() -> StoreError {
    .indexDamaged("the index checkpoint is damaged", checkpointNumber.map(FileName.checkpoint))
  }

  /// Adds every segment that the checkpoint covers, before anything is replayed: replaying an early
  /// record of the log may look at an entry that names a late segment.
  func openCovered(
    _ state: inout EngineState
  ) throws(StoreError) -> [SegmentNumber: SegmentOpening.Opened] {
    var result: [SegmentNumber: SegmentOpening.Opened] = [:]
    let last = state.log.manifest.segments.last { covered[$0.number] != nil }?.number
    for entry in state.log.manifest.segments {
      guard let covered = covered[entry.number] else { continue }
      let actual = Int(clamping: listing.segments[entry.number] ?? 0)
      let length = entry.isSealed ? min(actual, Int(clamping: entry.lengthBytes)) : actual
      var opened = try SegmentOpening.add(
        entry, &state, length: length, covered: covered,
        growingTo: entry.isSealed ? nil : growth(of: entry))
      if entry.number == last { try checkDigest(opened, entry.number.fileName, state.log.manifest) }
      // There may be thousands of segments, and most have nothing left to read: neither their
      // windows nor their files are kept.
      opened.source?.release()
      if entry.isSealed, opened.start == length { opened.source = nil }
      result[entry.number] = opened
    }
    return result
  }

  /// Returns the length that an unsealed segment may reach; nil in a process that is alone.
  func growth(of entry: Manifest.Segment) -> Int? {
    assert(!entry.isSealed, "a sealed segment does not grow")
    guard let following else { return nil }
    let isTail = following.tailSegment == entry.number.rawValue
    return isTail ? max(following.tailLimit, following.tailEnd) : 0
  }
}

extension Opener {
  /// Returns the newest checkpoint that a recovery can begin with; nil when there is none.
  ///
  /// - Parameter problem: the damage or the error that prevented reading a checkpoint. A checkpoint
  ///   is only a shortcut: the log is read instead, and if the disk is the cause, that read reports
  ///   it. A checkpoint of a newer version or of another log is no problem.
  func loadCheckpoint(
    _ directory: any StorageDirectory, _ listing: DirectoryContents, _ manifest: Manifest,
    _ problem: inout StoreError?
  ) -> (number: SegmentNumber, pages: CheckpointPages)? {
    let logBytes = listing.segments.values.reduce(0, &+)
    for number in listing.checkpoints.sorted(by: >) {
      do throws(StoreError) {
        let pages = try CheckpointFile.open(
          FileName.checkpoint(number), directory, mapped: configuration.ioMode == .mapped,
          logBytes: logBytes)
        guard let pages, pages.header.storeID == manifest.storeID,
          pages.header.epoch <= manifest.epoch,
          pages.header.lastSequence <= manifest.lastSequence.rawValue || !manifest.isClean,
          // A segment that was ever listed has a number below the next one.
          pages.header.segments.allSatisfy({ $0.number.rawValue < manifest.nextSegmentNumber }),
          pages.header.hasTrees(of: manifest.ordered)
        else { continue }
        return (number, pages)
      } catch {
        problem = error
      }
    }
    return nil
  }
}

/// Checks that the files in the directory are those that the manifest lists.
extension Recovery {
  func checkPresence(_ manifest: Manifest) throws(StoreError) {
    // One segment may be waiting for its seal while the next one is appended to.
    let open = manifest.segments.drop(while: \.isSealed)
    guard open.count <= 2, !open.contains(where: \.isSealed) else {
      throw .corrupted(
        "more than two segments are open, or an open one precedes a sealed one", Manifest.fileName,
        at: Manifest.fixedLength)
    }
    let missing = manifest.segments.filter { listing.segments[$0.number] == nil }
    guard missing.isEmpty else {
      let names = missing.map(\.number.fileName).joined(separator: ", ")
      throw StoreError(
        .corrupted, "segments that the manifest lists are missing: \(names); restore them",
        file: missing.first?.number.fileName)
    }
  }

  /// Checks segment files that the manifest does not list: leftovers, or the sign of a stale
  /// manifest.
  func checkUnlisted(
    _ state: borrowing EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    let listed = Set(state.log.manifest.segments.map(\.number))
    let directory = state.directory
    let unlisted = listing.segments.keys.sorted().filter { !listed.contains($0) }
    // An interrupted backup has added these files, or has not removed them yet.
    if state.log.manifest.isBackup { return }
    for number in unlisted {
      let name = number.fileName
      guard let (header, source) = try readableStart(directory, name),
        header.storeID == state.log.manifest.storeID
      else {
        report.foreignFiles.append(name)
        continue
      }
      // A follower lists a segment after it has received its records.
      let isListedLate = state.log.manifest.following != nil
      // A segment that a compaction wrote and did not publish contains copies of listed records.
      if header.generation > state.log.manifest.generation, !header.flags.contains(.compacted),
        !isListedLate,
        try holdsRecords(source, name, header)
      {
        throw StoreError(
          .corrupted,
          "the manifest is older than segment \(number), which it does not list; "
            + "an older copy replaced the manifest; restore the newest one",
          file: Manifest.fileName)
      }
      guard !isReadOnly else {
        report.unlistedFiles.append(name)
        continue
      }
      try storing { () throws(StorageError) in try directory.remove(name) }
      report.removedFiles.append(name)
    }
    guard !isReadOnly else { return }
    var temporary: [String] = []
    if listing.hasTemporaryManifest { temporary.append(Manifest.temporaryFileName) }
    if listing.isRestoring { temporary.append(FileName.restoring) }
    if listing.hasTemporarySegment { temporary.append(FileName.temporarySegment) }
    if listing.hasTemporaryCheckpoint { temporary.append(FileName.temporaryCheckpoint) }
    // A checkpoint that does not fit now might fit again when this log has grown for a while.
    temporary += listing.checkpoints.filter { $0 != checkpointNumber }.map(FileName.checkpoint)
    for name in temporary {
      try storing { () throws(StorageError) in try directory.remove(name) }
      report.removedFiles.append(name)
    }
  }

  /// Returns the header and the bytes of a file; nil when the file does not begin with a sound
  /// header.
  private func readableStart(
    _ directory: any StorageDirectory, _ name: String
  ) throws(StoreError) -> (header: SegmentHeader, source: ByteSource)? {
    guard let source = try SegmentFile.source(directory, name, limit: nil),
      source.length >= SegmentHeader.fixedLength
    else { return nil }
    do throws(StoreError) {
      return (try SegmentFile.header(source, name), source)
    } catch {
      if error.code == .io || error.code == .limitExceeded { throw error }
      return nil
    }
  }

  private func holdsRecords(
    _ source: ByteSource, _ name: String, _ header: SegmentHeader
  ) throws(StoreError) -> Bool {
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    if case .record = try scanner.next() { return true }
    return false
  }
}

/// Functions that open the file of one segment for replay.
enum SegmentOpening {
  /// A segment that was added to the table.
  struct Opened {
    let slot: Int
    /// Nil where nothing is left to read.
    var source: ByteSource?
    let header: SegmentHeader
    /// Offset at which replaying begins: after the header, or after the part that a checkpoint
    /// covers.
    let start: Int
    /// The last sequence number before `start`.
    let lastSequence: UInt64
  }

  /// Opens a listed segment and adds it to the table.
  ///
  /// - Parameters:
  ///   - covered: the segment's figures in a checkpoint, if one covers it.
  ///   - growth: the length that the segment may reach, in a process that follows its growth.
  static func add(
    _ entry: Manifest.Segment, _ state: inout EngineState, length: Int,
    covered: CheckpointHeader.Segment? = nil, growingTo growth: Int? = nil
  ) throws(StoreError) -> Opened {
    let name = entry.number.fileName
    let isWritable = growth != nil && !state.configuration.isReadOnly
    let file = try storing { () throws(StorageError) in
      try state.directory.openFile(name, isWritable ? .readWrite : .read)
    }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let wanted = max(length, growth.map(FileBlock.covering) ?? 0)
    let mapping =
      state.configuration.ioMode == .mapped && wanted > 0
      ? try SegmentFile.map(file, wanted, isWritable ? .readWrite : .read) : nil
    let source = ByteSource(file: file, name: name, length: length, mapping: mapping)
    let header = try SegmentFile.header(source, name)
    guard header.storeID == state.log.manifest.storeID, header.number == entry.number,
      header.epoch == entry.epoch
    else {
      throw .corrupted("the header names another store, segment number or epoch", name, at: 16)
    }
    guard header.generation <= state.log.manifest.generation else {
      throw .corrupted(
        "the segment is newer than the manifest, which an older copy has replaced", name,
        at: 72)
    }
    guard !header.flags.contains(.encrypted) else {
      throw StoreError(
        .newerFormat,
        "the segment is encrypted, which this version cannot read; update this program", file: name)
    }
    let isClustered = header.flags.contains(.clustered)
    guard isClustered == entry.flags.contains(.clustered),
      !isClustered || entry.flags.isSuperset(of: [.sealed, .compacted]),
      !isClustered || !entry.flags.contains(.cut)
    else {
      throw .corrupted(
        "the header and the manifest disagree on the order of the records", name, at: 96)
    }
    var info = SegmentInfo(
      number: entry.number, epoch: entry.epoch, salt: header.salt, mapping: mapping,
      dictionary: header.dictionary)
    // A replay needs the order of the records; the caller sets the other flags.
    info.flags = entry.flags.intersection(.clustered)
    var view = SegmentView(
      base: mapping?.base, end: header.headerLength, seed: header.checksumSeed)
    view.dictionaryLength = header.dictionary.count
    guard let covered else {
      return Opened(
        slot: state.log.table.append(view, info), source: source, header: header,
        start: header.headerLength, lastSequence: 0)
    }
    guard covered.salt == header.salt, covered.endOffset >= UInt64(header.headerLength),
      covered.endOffset <= UInt64(length)
    else {
      throw .indexDamaged(
        "the index checkpoint does not match \(name)", state.checkpointNames.first)
    }
    guard try holdsTail(covered, entry, source, from: header.headerLength) else {
      throw .indexDamaged(
        "the index checkpoint covers records that \(name) does not contain",
        state.checkpointNames.first)
    }
    view.adopt(covered, header)
    state.log.table.append(view, info, in: Int(covered.slot))
    return Opened(
      slot: Int(covered.slot), source: source, header: header, start: view.end,
      lastSequence: covered.lastSequence)
  }

  /// Returns whether a segment holds the last bytes that a checkpoint covers. A log that was not
  /// sealed may have become shorter since: through a copy that was made while it grew, or a disk
  /// that lied.
  private static func holdsTail(
    _ covered: CheckpointHeader.Segment, _ entry: Manifest.Segment, _ source: ByteSource,
    from first: Int
  ) throws(StoreError) -> Bool {
    guard !entry.isSealed || covered.tailChecksum != 0 else { return true }
    let end = Int(clamping: covered.endOffset)
    return try source.tailChecksum(from: first, to: end) == covered.tailChecksum
  }
}
