import MoraineFormat

// Ranges of an ordered keyspace.
extension Keyspace {
  /// Returns the first entries of a range, in the order of their keys, and the place at which
  /// ``entries(after:limit:)`` continues.
  ///
  /// ```swift
  /// let events = try store.orderedKeyspace(named: "events")
  /// let page = try await events.entries(in: .prefix("2026-11-"), order: .descending, limit: 50)
  /// ```
  ///
  /// One page shows one moment. Writers may write between two pages; a walk over a snapshot shows
  /// one moment as a whole.
  ///
  /// - Parameters:
  ///   - range: the range of keys, such as `"a"..<"b"` or ``KeyRangeConvertible/prefix(_:)``.
  ///   - order: ascending begins at the least key of the range, descending at the greatest.
  ///   - limit: the largest number of entries.
  /// - Throws: `.invalidArgument` when the keyspace is not ordered; the errors of
  ///   ``Store/value(forKey:)``; where the call makes the keyspace ordered, also those of a write.
  /// - Complexity: O(log n + entries).
  public func entries(
    in range: some KeyRangeConvertible = .all, order: KeyOrder = .ascending, limit: Int
  ) async throws(StoreError) -> EntryPage {
    try await store.page(of: self, range.keyRange, order, limit)
  }

  /// Returns the entries after those of an earlier page.
  ///
  /// - Throws: `.invalidArgument` when the token is of another keyspace; the errors of
  ///   ``entries(in:order:limit:)``.
  public func entries(
    after token: PageToken, limit: Int
  ) async throws(StoreError) -> EntryPage {
    guard token.keyspace == name else {
      throw StoreError(.invalidArgument, "the page token is of the keyspace '\(token.keyspace)'")
    }
    return try await store.page(of: self, token.rest, token.order, limit)
  }

  /// Returns the first keys of a range. Reads no values.
  ///
  /// - Throws: the errors of ``entries(in:order:limit:)``.
  /// - Complexity: O(log n + keys).
  public func keys(
    in range: some KeyRangeConvertible = .all, order: KeyOrder = .ascending, limit: Int
  ) async throws(StoreError) -> [Key] {
    try await store.keys(of: self, range.keyRange, order, limit)
  }

  /// Returns the entry with the least key of a range; nil when the range is empty.
  ///
  /// - Throws: the errors of ``entries(in:order:limit:)``.
  /// - Complexity: O(log n).
  public func first(
    in range: some KeyRangeConvertible = .all
  ) async throws(StoreError) -> Store.Entry? {
    try await entries(in: range, limit: 1).entries.first
  }

  /// Returns the entry with the greatest key of a range; nil when the range is empty. See
  /// ``first(in:)``.
  public func last(
    in range: some KeyRangeConvertible = .all
  ) async throws(StoreError) -> Store.Entry? {
    try await entries(in: range, order: .descending, limit: 1).entries.first
  }

  /// Returns the entry with the least key that is greater than a key. See ``first(in:)``.
  public func entry(after key: Key) async throws(StoreError) -> Store.Entry? {
    try await first(in: KeyRange(from: key.successor))
  }

  /// Returns the entry with the greatest key that is less than a key. See ``first(in:)``.
  public func entry(before key: Key) async throws(StoreError) -> Store.Entry? {
    try await last(in: ..<key)
  }

  /// Returns the number of keys in a range.
  ///
  /// - Throws: the errors of ``entries(in:order:limit:)``.
  /// - Complexity: O(log n); O(keys) when the store has expired entries that it has not deleted.
  public func count(in range: some KeyRangeConvertible) async throws(StoreError) -> Int {
    try await store.count(of: self, range.keyRange)
  }

  /// Removes the keys of a range, in atomic batches of at most a thousand keys.
  ///
  /// - Returns: the number of keys that were removed.
  /// - Throws: the errors of ``removeValue(forKey:durability:)`` and of
  ///   ``entries(in:order:limit:)``; keys of earlier batches are removed then.
  /// - Complexity: O(keys · log n). Each removed key appends a record.
  @discardableResult
  public func removeAll(
    in range: some KeyRangeConvertible, durability: Durability? = nil
  ) async throws(StoreError) -> Int {
    try await store.removeAll(of: self, range.keyRange, durability)
  }
}

extension Store {
  private static let removalBatch = 1000

  /// Makes a keyspace ordered, if its handle asks for it.
  func prepareOrder(_ keyspace: Keyspace) async throws(StoreError) {
    try await checkOpen()
    guard keyspace.wantsOrder, engine != nil, engine!.keyspaces.id(of: keyspace.name) != nil,
      !engine!.fulfils(keyspace.request)
    else { return }
    try await passGate()
    try await withRoom(creating: [keyspace.request]) { (_) throws(StoreError) in .done(()) }
  }

  /// Calls the body with a walk over a range; not when the range is empty.
  ///
  /// - Parameter limit: how many entries the body reads at most.
  private func walk<Result>(
    _ keyspace: Keyspace, _ range: KeyRange, _ order: KeyOrder, _ limit: Int, empty: Result,
    _ body: (inout EngineState, inout RangeWalk) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await prepareOrder(keyspace)
    return try await reading { (engine) throws(StoreError) in
      guard let id = engine.keyspaces.id(of: keyspace.name) else { return empty }
      guard engine.live.isOrdered(id) else {
        if keyspace.wantsOrder, id == 0 { return empty }
        throw StoreError(
          .invalidArgument,
          "the keyspace '\(keyspace.name)' is not ordered; open it with orderedKeyspace(named:)")
      }
      guard var walk = try engine.walk(id, range, order, limit: limit) else { return empty }
      return try body(&engine, &walk)
    } ?? empty
  }

  func page(
    of keyspace: Keyspace, _ range: KeyRange, _ order: KeyOrder, _ limit: Int
  ) async throws(StoreError) -> EntryPage {
    precondition(limit > 0, "a page has at least one entry")
    // One entry more than the page has shows whether another page follows.
    let most = limit == .max ? limit : limit + 1
    return try await walk(keyspace, range, order, most, empty: EntryPage(entries: [])) {
      (engine, walk) throws(StoreError) in
      var page = EntryPage(entries: [])
      var ahead = RecordsAhead(limit: limit)
      while page.entries.count < limit, let entry = try engine.nextEntry(&walk, &ahead) {
        page.entries.append(entry)
      }
      if try engine.hasNext(&walk, &ahead), let last = page.entries.last {
        guard range.contains(last.key) else { throw Self.disorder }
        let rest =
          order == .ascending
          ? KeyRange(from: last.key.successor, upTo: range.upperBound)
          : KeyRange(from: range.lowerBound, upTo: last.key)
        page.next = PageToken(keyspace.name, rest, order)
      }
      return page
    }
  }

  func keys(
    of keyspace: Keyspace, _ range: KeyRange, _ order: KeyOrder, _ limit: Int
  ) async throws(StoreError) -> [Key] {
    try await walk(keyspace, range, order, limit, empty: []) { (engine, walk) throws(StoreError) in
      var keys: [Key] = []
      var ahead = RecordsAhead(limit: limit)
      while keys.count < limit, let key = try engine.nextKey(&walk, &ahead) { keys.append(key) }
      return keys
    }
  }

  func count(of keyspace: Keyspace, _ range: KeyRange) async throws(StoreError) -> Int {
    try await walk(keyspace, range, .ascending, 0, empty: 0) {
      (engine, walk) throws(StoreError) in
      try engine.count(&walk)
    }
  }

  func removeAll(
    of keyspace: Keyspace, _ range: KeyRange, _ durability: Durability?
  ) async throws(StoreError) -> Int {
    var removed = 0
    var idleRounds = 0
    while true {
      let keys = try await keys(of: keyspace, range, .ascending, Self.removalBatch)
      if keys.isEmpty { return removed }
      let before = removed
      _ = try await writeUnit(durability) { (batch) throws(StoreError) in
        for key in keys where try batch.removeValue(forKey: key, in: keyspace) { removed += 1 }
      }
      // Another writer may have removed some of them, but the next round finds other keys then. In
      // a shared store another process may set the same keys again and again.
      idleRounds = removed == before ? idleRounds + 1 : 0
      if idleRounds > (isShared ? Self.idleRoundLimit : 0),
        try await self.keys(of: keyspace, range, .ascending, 1) == [keys[0]]
      {
        throw Self.disorder
      }
    }
  }

  /// So many rounds that remove nothing are no accident.
  private static let idleRoundLimit = 1000

  /// The error of a tree whose entries do not have the order of their keys.
  private static let disorder = StoreError.indexDamaged(
    "the entries of an ordered keyspace are not in the order of their keys", nil)
}

extension EngineState {
  /// Returns a walk over a range of an ordered keyspace; nil when the range is empty.
  ///
  /// - Parameter limit: how many entries the walk reads at most.
  mutating func walk(
    _ id: UInt16, _ range: KeyRange, _ order: KeyOrder, limit: Int
  ) throws(StoreError) -> RangeWalk? {
    // Entries that have expired are passed too, and do not count.
    let most = log.table.hasExpiries ? Int.max : limit
    if live.trees.hasUnvalidatedPages, !live.trees.validate(range, order, limit: most, in: id) {
      try replaceDamagedIndex()
    }
    return try RangeWalk(range, order, live.trees, live.trees.root(id), in: id, log.table)
  }

  func nextEntry(
    _ walk: inout RangeWalk, _ ahead: inout RecordsAhead
  ) throws(StoreError) -> Store.Entry? {
    guard let (address, record) = try nextRecord(&walk, &ahead) else { return nil }
    return try log.table.entry(of: record, at: address)
  }

  /// Returns the next record that has not expired.
  private func nextRecord(
    _ walk: inout RangeWalk, _ ahead: inout RecordsAhead
  ) throws(StoreError) -> (address: Address, record: RecordReference)? {
    while let address = try ahead.next(&walk, live.trees, log.table) {
      let record = try log.table.entryRecord(at: address, of: walk.keyspace)
      ahead.note(record)
      if !record.hasExpired(at: now) { return (address, record) }
    }
    return nil
  }

  /// Returns whether a walk has another entry that has not expired. The walk may have passed that
  /// entry then.
  func hasNext(_ walk: inout RangeWalk, _ ahead: inout RecordsAhead) throws(StoreError) -> Bool {
    guard ahead.hasNext(&walk, live.trees) else { return false }
    if log.table.slotsWithExpired(through: now).isEmpty { return true }
    return try nextRecord(&walk, &ahead) != nil
  }

  /// Returns the number of the entries of a walk that have not expired.
  func count(_ walk: inout RangeWalk) throws(StoreError) -> Int {
    if log.table.slotsWithExpired(through: now).isEmpty {
      return walk.remainingCount(live.trees)
    }
    var ahead = RecordsAhead()
    var count = 0
    while try nextRecord(&walk, &ahead) != nil { count += 1 }
    return count
  }

  func nextKey(
    _ walk: inout RangeWalk, _ ahead: inout RecordsAhead
  ) throws(StoreError) -> Key? {
    guard let (_, record) = try nextRecord(&walk, &ahead) else { return nil }
    return Key([UInt8](record.key))
  }
}
