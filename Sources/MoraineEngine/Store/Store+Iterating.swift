import MoraineFormat

extension Store {
  /// Calls the body with every live record of the unnamed keyspace, in the order of the log, until it answers false.
  ///
  /// Consistent: nothing else runs on the store meanwhile.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`, and what the body throws. `.locked` when another
  ///   process compacts a store of more than 64 segments that is read without mappings, so that its
  ///   files are gone before they were reached: begin again.
  /// - Complexity: O(bytes of the log).
  public func forEach(_ body: sending (Entry) throws -> Bool) throws {
    try forEach(in: 0, body)
  }

  func forEach(in keyspace: UInt16, _ body: (Entry) throws -> Bool) throws {
    try checkOpen()
    guard engine != nil else { return }
    try holdFiles()
    var walk = LogWalk(keyspace: keyspace)
    var entry = try reading { (engine) throws(StoreError) in
      walk = LogWalk(keyspace: keyspace)
      try walk.begin(&engine)
      return try walk.next(&engine)
    }
    while let found = entry ?? nil {
      guard try body(found) else { return }
      entry = try nextEntry(&walk)
    }
  }

  private func nextEntry(_ walk: inout LogWalk) throws(StoreError) -> Entry? {
    do throws(StoreError) { return try walk.next(&engine!) } catch {
      guard try wasReplaced(error) else { throw error }
      throw StoreError(
        .locked, "another process compacted the store while it was gone through; begin again",
        file: error.file)
    }
  }

  func entries(in keyspace: String) throws(StoreError) -> [Entry] {
    try checkOpen()
    try holdFiles()
    return try reading { (engine) throws(StoreError) in
      try engine.keyspaces.id(of: keyspace).map { id throws(StoreError) in
        try engine.entries(in: id)
      } ?? []
    } ?? []
  }
}

extension EngineState {
  /// What is live in a keyspace, in the order of the log.
  mutating func entries(in keyspace: UInt16) throws(StoreError) -> [Entry] {
    var result: [Entry] = []
    var walk = LogWalk(keyspace: keyspace)
    try walk.begin(&self)
    while let entry = try walk.next(&self) { result.append(entry) }
    return result
  }
}

/// Goes over all that is live, in the order of the log.
struct LogWalk {
  let keyspace: UInt16
  private var slots: [Int] = []
  private var position = 0
  private var cursor: LogCursor?

  init(keyspace: UInt16) { self.keyspace = keyspace }

  mutating func begin(_ engine: inout EngineState) throws(StoreError) {
    try engine.admitAll()
    slots = engine.table.readingOrder
  }

  mutating func next(_ engine: inout EngineState) throws(StoreError) -> Entry? {
    while true {
      if let entry = try cursor?.next(&engine) { return entry }
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
