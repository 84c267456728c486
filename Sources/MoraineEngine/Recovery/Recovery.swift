import MoraineFormat
import MoraineStorage
import SystemPackage

/// Brings the state to what the log says, and the log to a shape that the next run can trust.
struct Recovery {
  let listing: Listing
  let opener: Opener
  /// Where to begin instead of with nothing.
  let checkpoint: CheckpointPages?
  /// The file it is in.
  let checkpointNumber: SegmentNumber?
  /// What it covers.
  let covered: [SegmentNumber: CheckpointHeader.Segment]
  /// How far other processes, which write meanwhile, have published the log.
  let following: SharedPage.Snapshot?

  init(
    listing: Listing, opener: Opener, checkpoint: Opener.Checkpoint?,
    following: SharedPage.Snapshot? = nil
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
        before.map(\.isWhole) == false
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
        after: SequenceNumber(rawValue: logEnd), id: Machine.randomNumber())
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
