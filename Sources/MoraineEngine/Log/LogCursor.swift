import MoraineFormat

/// Goes over all that is live, in the order of the log.
struct LogWalk {
  let keyspace: UInt16
  private let slots: [Int]
  private var position = 0
  private var cursor: LogCursor?

  /// - Parameter slots: of the segments, in the order of the log. All of the index was admitted.
  init(keyspace: UInt16, slots: [Int]) {
    self.keyspace = keyspace
    self.slots = slots
  }

  mutating func next<Index: ProbedIndex & ~Copyable, Table: RecordSource & ~Copyable>(
    _ index: borrowing Index, _ table: borrowing Table
  ) throws(StoreError) -> Entry? {
    while true {
      if let entry = try cursor?.next(index, table) { return entry }
      if position == slots.count { return nil }
      cursor = LogCursor(slot: slots[position], keyspace: keyspace)
      position += 1
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
  mutating func next<Index: ProbedIndex & ~Copyable, Table: RecordSource & ~Copyable>(
    _ index: borrowing Index, _ table: borrowing Table
  ) throws(StoreError) -> Entry? {
    while true {
      if position == window.count {
        try lookAhead(index, table)
        if window.isEmpty { return nil }
      }
      let (address, hash) = window[position]
      position += 1
      guard index.holds(address, hash) else { continue }
      let record = try table.record(at: address)
      // Without a mapping these bytes were read anew.
      if table.views[slot].base == nil { try table.verify(record, at: address) }
      let key = Key([UInt8](record.key))
      return Entry(
        keyspace: record.header.keyspace, key: key,
        sequence: SequenceNumber(rawValue: record.header.sequence),
        value: try table.value(of: record, at: address))
    }
  }

  /// Checks the next records and fetches their buckets.
  private mutating func lookAhead<Index: ProbedIndex & ~Copyable, Table: RecordSource & ~Copyable>(
    _ index: borrowing Index, _ table: borrowing Table
  ) throws(StoreError) {
    window.removeAll(keepingCapacity: true)
    position = 0
    var place = offset ?? table.views[slot].firstOffset
    while place < table.views[slot].end, window.count < Self.lookahead {
      let address = Address(slot: slot, offset: place)
      let record = try table.record(at: address)
      try table.verify(record, at: address)
      place += aligned(record.header.length)
      guard record.header.kind == .put, keyspace ?? record.header.keyspace == record.header.keyspace
      else { continue }
      let hash = table.hash(record.key, record.header.keyspace)
      index.prefetch(hash)
      window.append((address, hash))
    }
    offset = place
  }
}
