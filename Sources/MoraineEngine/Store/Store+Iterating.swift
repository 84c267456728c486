import MoraineFormat

extension Store {
  /// Calls the body with every live record of the unnamed keyspace, in the order of the log, until
  /// it answers false.
  ///
  /// Consistent: nothing else runs on the store until it ends, and what the body asks of the store
  /// is answered as of the beginning of the walk, even if other processes write.
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
    var walk = LogWalk(keyspace: keyspace, slots: [])
    var entry = try reading { (engine) throws(StoreError) in
      try engine.admitAll()
      walk = LogWalk(keyspace: keyspace, slots: engine.table.readingOrder)
      return try engine.next(&walk)
    }
    while let found = entry ?? nil {
      guard try walking({ try body(found) }) else { return }
      entry = try nextEntry(&walk)
    }
  }

  private func nextEntry(_ walk: inout LogWalk) throws(StoreError) -> Entry? {
    do throws(StoreError) { return try engine!.next(&walk) } catch {
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
    try admitAll()
    var result: [Entry] = []
    var walk = LogWalk(keyspace: keyspace, slots: table.readingOrder)
    while let entry = try next(&walk) { result.append(entry) }
    return result
  }

  func next(_ walk: inout LogWalk) throws(StoreError) -> Entry? { try walk.next(index, table) }

  func next(_ cursor: inout LogCursor) throws(StoreError) -> Entry? {
    try cursor.nextRecord(index, table).map { address, record throws(StoreError) in
      try table.entry(of: record, at: address)
    }
  }
}
