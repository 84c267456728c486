import MoraineFormat

/// The result of replaying one segment.
struct ReplayResult {
  /// End of the last whole unit.
  var validEnd: Int
  /// Offset at which the next record should have been, and why it does not exist.
  var stop: (offset: Int, reason: String)?
  /// The largest durable offset that a sync mark promised, among the marks that were passed.
  var promise: UInt64 = 0
  var hasFooter = false
}

/// Replays a segment's records into the state, a whole unit at a time.
///
/// Whole units wait in `ready` until there are several: by then their index buckets have arrived.
struct Replay {
  private struct Operation {
    let address: Address
    let sequence: UInt64
    let hash: UInt64
  }

  private static let readyLimit = 16

  private let slot: Int
  private let name: String
  private var scanner: SegmentScanner
  /// The operations of a batch whose end has not been read yet.
  private var pending: [Operation] = []
  private var ready: [Operation] = []
  private var lastSequence: UInt64 = 0
  /// The last sequence number before the segment.
  private var sequenceBefore: UInt64 = 0
  private var isClustered = false
  private var result: ReplayResult
  /// Sequence number up to which the digests of marks and footers are compared.
  var digestsThrough = UInt64.max

  init(slot: Int, name: String, scanner: SegmentScanner) {
    self.slot = slot
    self.name = name
    self.scanner = scanner
    result = ReplayResult(validEnd: scanner.offset)
  }

  mutating func run(_ state: inout EngineState) throws(StoreError) -> ReplayResult {
    lastSequence = state.log.lastSequence
    sequenceBefore = lastSequence
    isClustered = state.log.table.infos[slot].isClustered
    while !result.hasFooter, result.stop == nil {
      let before = scanner.offset
      switch try scanner.next() {
      case .end:
        try install(&state)
        if !pending.isEmpty {
          result.stop = (before, "incomplete batch: its last record is missing")
        }
        return result
      case .stop(let reason): result.stop = (before, reason)
      case .record(let record): try process(record, &state)
      }
    }
    try install(&state)
    return result
  }

  private mutating func process(
    _ record: SegmentScanner.Record, _ state: inout EngineState
  ) throws(StoreError) {
    // Reads by address must reach this record when its unit is installed.
    state.log.table[slot].end = scanner.offset
    let header = record.reference.header
    switch header.kind {
    case .put, .delete: try processOperation(record, &state)
    case .syncMark:
      let mark = try formatting(name) { () throws(FormatError) in
        try SyncMark(decoding: record.reference.stored)
      }
      guard mark.durableOffset <= UInt64(record.offset) else {
        throw .corrupted("a sync mark confirms bytes that come after it", name, at: record.offset)
      }
      try check(mark.digest, record.offset, header.sequence, &state)
      result.promise = max(result.promise, mark.durableOffset)
      result.validEnd = scanner.offset
    case .footer:
      let footer = try formatting(name) { () throws(FormatError) in
        try SegmentFooter(decoding: record.reference.stored)
      }
      try check(footer.digest, record.offset, header.sequence, &state)
      guard footer.counts(state.log.table[slot]) else {
        throw .corrupted("the footer does not match the segment's records", name, at: record.offset)
      }
      result.hasFooter = true
      result.validEnd = scanner.offset
    }
  }

  private mutating func processOperation(
    _ record: SegmentScanner.Record, _ state: inout EngineState
  ) throws(StoreError) {
    let header = record.reference.header
    guard record.offset < StoreLimits.recordOffsetBytes else {
      throw .corrupted("a record begins after the limit of 1 GiB", name, at: record.offset)
    }
    let floor = isClustered ? sequenceBefore : lastSequence
    guard header.sequence > floor else {
      throw .corrupted(
        "sequence \(header.sequence) is not above the previous \(floor)", name,
        at: record.offset)
    }
    guard !isClustered || header.batch == .alone else {
      throw .corrupted("a segment in key order contains a batch", name, at: record.offset)
    }
    guard pending.isEmpty || (header.batch != .alone && header.sequence == lastSequence + 1) else {
      throw .corrupted(
        "incomplete batch: another operation precedes its last record", name, at: record.offset)
    }
    lastSequence = max(lastSequence, header.sequence)
    guard state.keyspaces.contains(header.keyspace) else {
      throw .corrupted(
        "the manifest does not list keyspace \(header.keyspace)", name, at: record.offset)
    }
    let hash = state.hash(record.reference.key, header.keyspace)
    state.live.index.prefetch(hash)
    pending.append(
      Operation(
        address: Address(slot: slot, offset: record.offset), sequence: header.sequence, hash: hash))
    if header.batch == .more { return }
    guard header.batch == .alone || header.batchCount == pending.count else {
      throw .corrupted(
        "a batch has \(pending.count) records, but its last record counts \(header.batchCount)",
        name, at: record.offset)
    }
    ready.append(contentsOf: pending)
    pending.removeAll(keepingCapacity: true)
    result.validEnd = scanner.offset
    if ready.count >= Self.readyLimit { try install(&state) }
  }

  private mutating func install(_ state: inout EngineState) throws(StoreError) {
    for operation in ready { try state.replay(operation.address, hash: operation.hash) }
    ready.removeAll(keepingCapacity: true)
  }

  private mutating func check(
    _ digest: StateDigest, _ offset: Int, _ sequence: UInt64, _ state: inout EngineState
  ) throws(StoreError) {
    guard pending.isEmpty else {
      throw .corrupted("incomplete batch: a mark precedes its last record", name, at: offset)
    }
    guard sequence >= lastSequence else {
      throw .corrupted(
        "a mark has sequence \(sequence), below the previous \(lastSequence)", name, at: offset)
    }
    try install(&state)
    guard sequence > state.log.manifest.compactedThrough.rawValue, sequence <= digestsThrough,
      digest != state.live.digest
    else { return }
    throw .corrupted("the state digest does not match the records", name, at: offset)
  }
}

extension SegmentFooter {
  /// Returns whether the footer counts the records that were read.
  func counts(_ view: SegmentView) -> Bool {
    recordCount == view.recordCount && firstSequence.rawValue == view.firstSequence
      && lastSequence.rawValue == view.lastSequence
  }
}

extension EngineState {
  /// Makes a record visible that is in the log already.
  mutating func replay(_ address: Address, hash: UInt64) throws(StoreError) {
    var isStray = false
    if live.trees.hasOrdered {
      let record = try log.table.record(at: address)
      if live.trees.isOrdered(record.header.keyspace) {
        isStray = record.key.count > StoreLimits.orderedKeyLengthBytes
        if !isStray { return try replayOrdered(address, hash: hash) }
      }
    }
    guard !live.index.hasUnvalidatedPages || live.index.validatePages(hash) else {
      throw .indexDamaged("the index checkpoint is damaged", checkpointNames.first)
    }
    try live.index.secureChange()
    live.index.makeUnique(hash)
    let record = try log.table.record(at: address)
    let header = record.header
    // Finding the key's older record may reuse the buffer that this record was read into.
    let expiry = record.expiryMilliseconds
    let existing: IndexHit?
    if log.table[address.slot].base != nil {
      existing = try log.table.find(record.key, header.keyspace, hash: hash, in: live.index)
    } else {
      existing = try [UInt8](record.key).withBytes { (key) throws(StoreError) in
        try log.table.find(key, header.keyspace, hash: hash, in: live.index)
      }
    }
    if let expiry { log.table.addExpiry(expiry, at: address) }
    log.countReplayed(header, in: address.slot)
    log.lastSequence = max(log.lastSequence, header.sequence)
    // Only with a checkpoint: it may cover records that come later in the log.
    if let existing, existing.record.header.sequence > header.sequence { return }
    if isStray { countStrayKey(header.kind.effect, over: existing != nil) }
    live.apply(
      header.kind.effect, at: address, length: header.length, sequence: header.sequence,
      hash: hash, keyspace: header.keyspace, over: existing?.replaceable, in: log.table)
  }
}

// Keys that are too long for the tree of their ordered keyspace. The log of a copy may have them:
// the keyspace became ordered when its store had deleted them and compacted them away, and the
// copy, which has the log as it was written, learns the order first. During a replay such keys are
// in the hash index; in a state that is used, none of them is live.
extension EngineState {
  private mutating func countStrayKey(_ effect: RecordKind.Effect, over existing: Bool) {
    switch effect {
    case .sets: strayKeyCount += existing ? 0 : 1
    case .removes: strayKeyCount -= existing ? 1 : 0
    case .none: break
    }
    assert(strayKeyCount >= 0, "more stray keys were removed than there are")
  }

  /// Throws when a key is live that the tree of its keyspace cannot hold.
  func checkStrayKeys() throws(StoreError) {
    guard strayKeyCount == 0 else {
      throw StoreError(
        .corrupted, "\(strayKeyCount) keys are too long for their ordered keyspace",
        file: Manifest.fileName)
    }
  }
}
