import MoraineFormat

/// What replaying one segment found.
struct ReplayResult {
  /// Behind the last whole unit.
  var validEnd: Int
  /// Where the next record should have been, and why there is none.
  var stop: (offset: Int, reason: String)?
  /// The farthest promise of the sync marks that were passed.
  var promise: UInt64 = 0
  var hasFooter = false
  var footer: SegmentFooter?
}

/// Feeds a segment's records into the state, a whole unit at a time.
struct Replay {
  private struct Pending {
    let address: Address
    let sequence: UInt64
  }

  private let slot: Int
  private let name: String
  private var scanner: SegmentScanner
  private var pending: [Pending] = []
  private var result: ReplayResult

  init(slot: Int, name: String, scanner: SegmentScanner) {
    self.slot = slot
    self.name = name
    self.scanner = scanner
    result = ReplayResult(validEnd: scanner.offset)
  }

  mutating func run(_ state: inout EngineState) throws(StoreError) -> ReplayResult {
    while true {
      let before = scanner.offset
      switch try scanner.next() {
      case .end:
        if !pending.isEmpty { result.stop = (before, "a batch has no end") }
        return result
      case .stop(let reason):
        result.stop = (before, reason)
        return result
      case .record(let record):
        try take(record, &state)
        if result.hasFooter { return result }
      }
    }
  }

  private mutating func take(
    _ record: SegmentScanner.Record, _ state: inout EngineState
  ) throws(StoreError) {
    // Reads by address must reach this record while its unit is installed.
    state.table[slot].end = scanner.offset
    let header = record.reference.header
    switch header.kind {
    case .put, .delete: try takeOperation(record, &state)
    case .syncMark:
      let mark = try formatting(name) { () throws(FormatError) in
        try SyncMark(decoding: record.reference.stored)
      }
      try check(mark.digest, record, &state)
      result.promise = max(result.promise, mark.durableOffset)
      result.validEnd = scanner.offset
    case .footer:
      let footer = try formatting(name) { () throws(FormatError) in
        try SegmentFooter(decoding: record.reference.stored)
      }
      try check(footer.digest, record, &state)
      result.footer = footer
      result.hasFooter = true
      result.validEnd = scanner.offset
    }
  }

  private mutating func takeOperation(
    _ record: SegmentScanner.Record, _ state: inout EngineState
  ) throws(StoreError) {
    let header = record.reference.header
    let last = pending.last?.sequence ?? state.lastSequence
    guard header.sequence > last else {
      throw .corrupted(
        "sequence number \(header.sequence) comes after \(last)", name, at: record.offset)
    }
    guard pending.isEmpty || (header.batch != .alone && header.sequence == last + 1) else {
      throw .corrupted("a batch is broken off by another record", name, at: record.offset)
    }
    let address = Address(slot: slot, offset: record.offset)
    pending.append(Pending(address: address, sequence: header.sequence))
    if header.batch == .more { return }
    guard header.batch == .alone || header.batchCount == pending.count else {
      throw .corrupted(
        "a batch of \(pending.count) says it has \(header.batchCount)", name, at: record.offset)
    }
    for operation in pending { try state.replay(operation.address) }
    pending.removeAll(keepingCapacity: true)
    result.validEnd = scanner.offset
  }

  private func check(
    _ digest: StateDigest, _ record: SegmentScanner.Record, _ state: inout EngineState
  ) throws(StoreError) {
    guard pending.isEmpty else {
      throw .corrupted("a batch is broken off by a mark", name, at: record.offset)
    }
    guard state.manifest.compactedThrough.rawValue <= record.reference.header.sequence,
      digest != state.digest
    else { return }
    throw .corrupted("the state digest does not match the records", name, at: record.offset)
  }
}

extension EngineState {
  /// Makes visible a record that is in the log already.
  mutating func replay(_ address: Address) throws(StoreError) {
    let record = try table.record(at: address)
    let header = record.header
    // The key is copied: in positional mode, finding its older record reuses the buffer.
    let key = [UInt8](record.key)
    let hash = key.withUnsafeBytes { self.hash($0, header.keyspace) }
    let existing = try key.withBytes { (bytes) throws(StoreError) in
      try find(bytes, header.keyspace, hash: hash)
    }
    if header.kind == .put {
      install(
        put: address, length: header.length, sequence: header.sequence, hash: hash,
        over: existing)
    } else if let existing {
      uninstall(existing, hash: hash)
    }
    lastSequence = header.sequence
    count(header.sequence, in: address.slot)
  }
}
