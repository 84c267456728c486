import MoraineFormat
import MoraineStorage
import SystemPackage

/// Brings the state to what the log says, and the log to a shape that the next run can trust.
struct Recovery {
  let listing: DirectoryContents
  let opener: Opener
  /// Where to begin instead of with nothing.
  let checkpoint: CheckpointPages?
  /// The file it is in.
  let checkpointNumber: SegmentNumber?
  /// What it covers.
  let covered: [SegmentNumber: CheckpointHeader.Segment]
  /// How far other processes, which write meanwhile, have published the log.
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

  /// Whether it leaves all files as they are.
  var isReadOnly: Bool { opener.configuration.isReadOnly || following != nil }

  func run(_ state: inout EngineState, _ report: inout RecoveryReport) throws(StoreError) {
    let manifest = state.manifest
    report.wasClean = manifest.isClean
    state.reserve = Reserve(directory: state.directory, found: listing.reserveBytes)
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
            entry, behind: before, opened: opened[entry.number], &state, &report)
          : try OpenSegment.replay(
            entry, behind: before, opened: opened[entry.number], &state, &report))
    }
    // What was covered was taken in before the rest.
    state.table.arrange(by: manifest.segments.map(\.number))
    // What compaction has made durable it may have dropped from the log since.
    let logEnd = max(state.lastSequence, manifest.compactedThrough.rawValue)
    // Numbers up to here may have been given to operations that a power failure took.
    state.lastSequence = max(state.lastSequence, manifest.lastSequence.rawValue)
    if manifest.isClean, opener.knowsDigest, manifest.digest != state.digest {
      throw .corrupted(
        "the state digest does not match the segments", Manifest.fileName, at: 128)
    }
    report.segmentCount = state.table.order.count
    report.recordCount = state.table.order.reduce(0) { $0 + state.table[$1].recordCount }
    report.lastSequence = SequenceNumber(rawValue: state.lastSequence)
    if let following {
      state.lastSequence = max(state.lastSequence, following.lastSequence)
      return
    }
    guard !isReadOnly else { return finish(&state) }
    // Their files are closed here: a replaced file frees its blocks when its last user closes it.
    opened = [:]
    if !manifest.isClean {
      // The log does not tell whether anything came after this place; a backup may have it.
      state.manifest.addCut(
        after: SequenceNumber(rawValue: logEnd), id: SystemRandom.number())
    }
    try repair(repairs, &state, &report)
    finish(&state)
  }

  private func finish(_ state: inout EngineState) {
    // A reader syncs nothing: after an unclean stop it vouches for the sealed segments alone.
    let sealed = state.manifest.segments.filter(\.isSealed).map(\.lastSequence.rawValue).max() ?? 0
    let isProven = !isReadOnly || state.manifest.isClean
    state.pipeline.begin(file: nil, sequence: isProven ? state.lastSequence : sealed, offset: 0)
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
        "\(actual) bytes, but the manifest says \(length)", name, at: min(actual, length))
    }
    let opened: SegmentOpening.Opened
    if let known {
      opened = known
    } else {
      opened = try SegmentOpening.add(entry, &state, length: length)
    }
    let slot = opened.slot
    state.table.infos[slot].flags = entry.flags
    state.lastSequence = max(state.lastSequence, opened.lastSequence)
    report.replayedBytes += UInt64(length - opened.start)
    if opened.start < length { try replay(opened, entry, name, &state) }
    guard state.table[slot].agrees(with: entry) else {
      throw .corrupted("its records are not those that the manifest counts", name, at: 0)
    }
    if actual > length, !isReadOnly { try cut(state.directory, name, to: length) }
  }

  /// Replays a sealed segment up to its end, which must be where the manifest says.
  private func replay(
    _ opened: SegmentOpening.Opened, _ entry: Manifest.Segment, _ name: String,
    _ state: inout EngineState
  ) throws(StoreError) {
    guard let source = opened.source else { fatalError("a segment without its bytes is replayed") }
    let scanner = SegmentScanner(
      source: source, name: name, seed: opened.header.checksumSeed, offset: opened.start)
    var replay = Replay(slot: opened.slot, name: name, scanner: scanner)
    let result = try replay.run(&state)
    if let stop = result.stop { throw .corrupted(stop.reason, name, at: stop.offset) }
    guard UInt64(result.validEnd) == entry.lengthBytes,
      result.hasFooter != entry.flags.contains(.cut)
    else { throw .corrupted("the footer is not where it must be", name, at: result.validEnd) }
  }

  func cut(
    _ directory: any StorageDirectory, _ name: String, to length: Int
  ) throws(StoreError) {
    try storing { () throws(StorageError) in
      try directory.openFile(name, .readWrite)?.truncate(to: UInt64(length))
    }
  }

  /// Makes the tail provably durable, then says in the manifest where each open segment ended.
  private func repair(
    _ open: [OpenSegment], _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    guard !open.isEmpty else { return }
    for segment in open where !segment.isEmpty {
      if try segment.makeDurable(state.directory, &state.reserve, &report) {
        try state.reopenFile(segment.slot, length: segment.end)
      }
      state.table.infos[segment.slot].flags.insert(.sealed)
      if !segment.hasFooter { state.table.infos[segment.slot].flags.insert(.cut) }
    }
    for segment in open where segment.isEmpty { state.table.drop(segment.slot) }
    let next = state.nextManifest()
    do throws(StoreError) {
      try state.publisher().publish(next)
    } catch {
      // On a full disk this is what the reserve was kept for: a store must open to be cleaned.
      guard error.code == .noSpace, state.reserve.lengthBytes > 0 else { throw error }
      try storing { () throws(StorageError) in try state.reserve.release() }
      try state.publisher().publish(next)
    }
    // What the copy of a tail has left of it; deletes may need it now.
    if state.reserve.lengthBytes <= OpenSegment.keptBytes {
      try storing { () throws(StorageError) in try state.reserve.release() }
    }
    state.manifest = next
    for segment in open where segment.isEmpty {
      try storing { () throws(StorageError) in try state.directory.remove(segment.name) }
    }
  }
}

/// Beginning with what a checkpoint knows.
///
/// It lies behind the last writer's opening, which removed any other: so it is of this log's own
/// past, and not of a life that a backup has undone. It may be older than the last compaction. What
/// it says of segments that are still listed holds: they have not changed. Entries of segments that
/// are gone are taken out; what was live in them was copied into segments that the checkpoint does
/// not know, or hidden by something newer, and a delete that hides a record leaves the log only
/// after the record's segment has. So replaying what is not covered, never letting an older record
/// take a newer one's place, comes to the log's own state.
extension Recovery {
  func adoptCheckpoint(_ state: inout EngineState) throws(StoreError) {
    guard let checkpoint else { return }
    let listed = Set(state.manifest.segments.map(\.number))
    let gone = checkpoint.header.segments.filter { !listed.contains($0.number) }
    let kept = checkpoint.header.segments.filter { listed.contains($0.number) }
    guard let index = try HashIndex(checkpoint) else { throw damaged() }
    state.index = index
    if !gone.isEmpty {
      guard state.index.validateAllPages() else { throw damaged() }
      state.index.removeAll(in: Set(gone.map { Int($0.slot) }))
    }
    for segment in kept {
      state.digest.add(segment.digest)
      state.liveBytes &+= segment.liveBytes
    }
    guard !gone.isEmpty || state.digest == checkpoint.header.digest, agrees(state.manifest, kept),
      checkpoint.header.keyspaces?.allSatisfy({ state.keyspaces.contains($0.id) }) ?? true
    else { throw damaged() }
    state.keyspaces.adopt(gone.isEmpty ? checkpoint.header.keyspaces : nil)
    state.table.keepSlots(Set(kept.map { Int($0.slot) }))
  }

  /// Where the last segment that the checkpoint covers ends with a footer, that has the digest of
  /// the same moment.
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

  /// Whether the checkpoint's figures can be those of the segments that the manifest lists; what
  /// costs nothing to find out.
  private func agrees(_ manifest: Manifest, _ kept: [CheckpointHeader.Segment]) -> Bool {
    let entries = manifest.entriesByNumber
    // Of the same moment, if nothing was written since.
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

  /// Takes in every segment that the checkpoint covers, before anything is replayed: what comes
  /// early in the log may be asked for beside an entry of a segment that comes late.
  func openCovered(
    _ state: inout EngineState
  ) throws(StoreError) -> [SegmentNumber: SegmentOpening.Opened] {
    var result: [SegmentNumber: SegmentOpening.Opened] = [:]
    let last = state.manifest.segments.last { covered[$0.number] != nil }?.number
    for entry in state.manifest.segments {
      guard let covered = covered[entry.number] else { continue }
      let actual = Int(clamping: listing.segments[entry.number] ?? 0)
      let length = entry.isSealed ? min(actual, Int(clamping: entry.lengthBytes)) : actual
      var opened = try SegmentOpening.add(
        entry, &state, length: length, covered: covered,
        growingTo: entry.isSealed ? nil : growth(of: entry))
      if entry.number == last { try checkDigest(opened, entry.number.fileName, state.manifest) }
      // There may be thousands, and of most nothing is left to read: neither their windows nor
      // their files stay.
      opened.source?.release()
      if entry.isSealed, opened.start == length { opened.source = nil }
      result[entry.number] = opened
    }
    return result
  }
}

extension Opener {
  /// The newest checkpoint that can be begun with; nil when there is none.
  ///
  /// - Parameter problem: what kept one from being read. It is only a shortcut: the log is read
  ///   then, and if the disk is to blame, that will say so.
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
          // One that was listed once has a number that was given by then.
          pages.header.segments.allSatisfy({ $0.number.rawValue < manifest.nextSegmentNumber })
        else { continue }
        return (number, pages)
      } catch {
        problem = error
      }
    }
    return nil
  }
}

/// Whether the files in the directory are those that the manifest lists.
extension Recovery {
  func checkPresence(_ manifest: Manifest) throws(StoreError) {
    // One may be on its way to be sealed while the next is appended to.
    let open = manifest.segments.drop(while: \.isSealed)
    guard open.count <= 2, !open.contains(where: \.isSealed) else {
      throw .corrupted(
        "open segments that are not the last ones, or too many", Manifest.fileName,
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

  /// Segment files that the manifest does not list: leftovers, or the sign of a stale manifest.
  func checkUnlisted(
    _ state: borrowing EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    let listed = Set(state.manifest.segments.map(\.number))
    let directory = state.directory
    let unlisted = listing.segments.keys.sorted().filter { !listed.contains($0) }
    // What a backup that was interrupted has brought, or has not taken away.
    if state.manifest.isBackup { return }
    for number in unlisted {
      let name = number.fileName
      guard let (header, source) = try readableStart(directory, name),
        header.storeID == state.manifest.storeID
      else {
        report.foreignFiles.append(name)
        continue
      }
      // What a compaction wrote and did not publish is a copy of what is listed.
      if header.generation > state.manifest.generation, !header.flags.contains(.compacted),
        try holdsRecords(source, name, header)
      {
        throw StoreError(
          .corrupted,
          "the manifest is older than segment \(number), which it does not list; "
            + "a stale copy was put in its place",
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
    // One that does not fit now might fit again when this log has gone on for a while.
    temporary += listing.checkpoints.filter { $0 != checkpointNumber }.map(FileName.checkpoint)
    for name in temporary {
      try storing { () throws(StorageError) in try directory.remove(name) }
      report.removedFiles.append(name)
    }
  }

  /// Nil when the file does not begin with a sound header.
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
