import MoraineFormat

extension Store {
  /// Calls the body with every live record of the unnamed keyspace, in the order of the log, until
  /// it answers false.
  ///
  /// Consistent: nothing else runs on the store until it ends, and what other processes write is
  /// taken in before it begins or after it has ended.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`, and what the body throws. `.locked` when another
  ///   process compacts a store of more than 64 segments that is read without mappings, so that its
  ///   files are gone before they were reached: begin again.
  /// - Complexity: O(bytes of the log).
  public func forEach(_ body: sending (Entry) throws -> Bool) async throws {
    try await forEach(in: 0, body)
  }

  func forEach(in keyspace: UInt16, _ body: (Entry) throws -> Bool) async throws {
    try await checkOpen()
    guard engine != nil else { return }
    try await holdFiles()
    try checkUsable()
    var walk = LogWalk(keyspace: keyspace, slots: [])
    let entry = try await reading { (engine) throws(StoreError) in
      try engine.admitAll()
      walk = LogWalk(keyspace: keyspace, slots: engine.table.readingOrder)
      return try engine.next(&walk)
    }
    guard let first = entry ?? nil else { return }
    guard let error = try goThrough(&walk, from: first, body) else { return }
    guard try await wasReplaced(error) else { throw error }
    throw StoreError(
      .locked, "another process compacted the store while it was gone through; begin again",
      file: error.file)
  }

  /// - Returns: why the log could not be read on; what the body throws is thrown.
  private func goThrough(
    _ walk: inout LogWalk, from first: Entry, _ body: (Entry) throws -> Bool
  ) throws -> StoreError? {
    var entry: Entry? = first
    while let found = entry {
      guard try body(found) else { return nil }
      do throws(StoreError) { entry = try engine!.next(&walk) } catch { return error }
    }
    return nil
  }

  /// What is live in a keyspace, and the number of the store's last operation at that moment.
  func entries(
    in keyspace: String
  ) async throws(StoreError) -> (entries: [Entry], sequence: UInt64) {
    try await checkOpen()
    try await holdFiles()
    try checkUsable()
    return try await reading { (engine) throws(StoreError) in
      let entries = try engine.keyspaces.id(of: keyspace).map { id throws(StoreError) in
        try engine.entries(in: id)
      }
      return (entries ?? [], engine.lastSequence)
    } ?? ([], 0)
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
