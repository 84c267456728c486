import MoraineFormat

extension Store {
  /// Calls the body with every live record of the unnamed keyspace, in the order of the log, until it answers false.
  ///
  /// Consistent: nothing else runs on the store meanwhile.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`, and what the body throws.
  /// - Complexity: O(bytes of the log).
  public func forEach(_ body: sending (Entry) throws -> Bool) throws {
    try forEach(in: 0, body)
  }

  func forEach(in keyspace: UInt16, _ body: (Entry) throws -> Bool) throws {
    try checkOpen()
    guard engine != nil else { return }
    try holdFiles()
    try engine!.admitAll()
    for slot in engine!.table.readingOrder {
      var cursor = LogCursor(slot: slot, keyspace: keyspace)
      while let entry = try cursor.next(&engine!) {
        guard try body(entry) else { return }
      }
    }
  }
}

/// A place in one segment, moving over its live puts.
///
/// It looks some records ahead, so that their index buckets have arrived when they are asked for.
struct LogCursor {
  private static let lookahead = 32

  let slot: Int
  /// Nil for all of them.
  let keyspace: UInt16?
  private var window: [(address: Address, hash: UInt64)] = []
  private var position = 0
  private(set) var offset: Int?

  init(slot: Int, keyspace: UInt16?) {
    self.slot = slot
    self.keyspace = keyspace
    window.reserveCapacity(Self.lookahead)
  }

  /// The next live record from here on; nil at the segment's end.
  mutating func next(_ engine: inout EngineState) throws(StoreError) -> Entry? {
    while true {
      if position == window.count {
        try lookAhead(engine)
        if window.isEmpty { return nil }
      }
      let (address, hash) = window[position]
      position += 1
      guard engine.index.holds(address, hash) else { continue }
      let record = try engine.table.record(at: address)
      // Without a mapping these bytes were read anew.
      if engine.table[slot].base == nil { try engine.table.verify(record, at: address) }
      let key = Key([UInt8](record.key))
      return Entry(
        keyspace: record.header.keyspace, key: key,
        sequence: SequenceNumber(rawValue: record.header.sequence),
        value: try engine.table.value(of: record, at: address))
    }
  }

  /// Checks the next records and fetches their buckets.
  private mutating func lookAhead(_ engine: borrowing EngineState) throws(StoreError) {
    window.removeAll(keepingCapacity: true)
    position = 0
    var place = offset ?? engine.table[slot].firstOffset
    while place < engine.table[slot].end, window.count < Self.lookahead {
      let address = Address(slot: slot, offset: place)
      let record = try engine.table.record(at: address)
      try engine.table.verify(record, at: address)
      place += aligned(record.header.length)
      guard record.header.kind == .put, keyspace ?? record.header.keyspace == record.header.keyspace
      else { continue }
      let hash = engine.hash(record.key, record.header.keyspace)
      engine.index.prefetch(hash)
      window.append((address, hash))
    }
    offset = place
  }
}
