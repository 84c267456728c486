package import MoraineEngine

/// A random transaction over lists: it reads lists, alone or as a range, and appends its id to some
/// of those that it has read. See ``HistoryChecker``.
package struct ListTransaction: Sendable {
  private static let listCount = 12

  private let id: HistoryChecker.ID
  private let seed: UInt64
  private let isOrdered: Bool
  private let keyspace: Keyspace

  /// - Parameters:
  ///   - seed: decides what the transaction does.
  ///   - isOrdered: whether the lists are in an ordered keyspace.
  package init(
    id: HistoryChecker.ID, seed: UInt64, isOrdered: Bool, in store: Store
  ) throws {
    self.id = id
    self.seed = seed
    self.isOrdered = isOrdered
    keyspace = try Self.keyspace(of: store, isOrdered: isOrdered)
  }

  private static func keyspace(of store: Store, isOrdered: Bool) throws -> Keyspace {
    try isOrdered ? store.orderedKeyspace(named: "lists") : store.keyspace(named: "lists")
  }

  /// Returns all lists of a store.
  package static func lists(of store: Store) async throws -> [String: [HistoryChecker.ID]] {
    var lists: [String: [HistoryChecker.ID]] = [:]
    try await store.snapshot().keyspace(named: "lists").scan { entry in
      lists["\(entry.key)"] = list(entry.value)
      return true
    }
    return lists
  }

  /// Runs the transaction.
  ///
  /// - Parameter willCommit: is called with what was read and appended before each attempt to
  ///   commit it.
  /// - Returns: what it has read and appended. The caller adds the moments.
  package func run(
    on store: Store, willCommit: @Sendable (HistoryChecker.Committed) throws -> Void = { _ in }
  ) async throws -> HistoryChecker.Committed {
    try await store.transaction(retries: 1000) { transaction in
      var random = SeededGenerator(seed: seed)
      var committed = HistoryChecker.Committed(id: id)
      if isOrdered, random.below(2) == 0 {
        try readRange(transaction, &committed, &random)
      }
      if !isOrdered, random.below(20) == 0 {
        let entries = try transaction.allEntries(of: keyspace)
        try note(entries, 0..<Self.listCount, &committed) { _ in true }
      }
      for _ in 0..<1 + random.below(4) {
        let key = Self.key(random.below(Self.listCount))
        let value = try transaction.value(forKey: key, in: keyspace)
        try committed.note("\(key)", Self.list(value))
      }
      if random.below(3) == 0 { await Task.yield() }
      for name in committed.reads.keys.sorted()
      where random.below(3) == 0 && committed.appends.count < 3 {
        let list = (committed.reads[name] ?? []) + [id]
        try transaction.set(Self.bytes(list), forKey: Key(name), in: keyspace)
        committed.appends.insert(name)
      }
      try willCommit(committed)
      return committed
    }
  }

  private func readRange(
    _ transaction: Store.Transaction, _ committed: inout HistoryChecker.Committed,
    _ random: inout SeededGenerator
  ) throws {
    let first = random.below(Self.listCount)
    let last = first + random.below(Self.listCount - first)
    let limit = random.below(3) == 0 ? 1 + random.below(3) : Int.max
    let order: KeyOrder = random.below(2) == 0 ? .ascending : .descending
    let entries = try transaction.entries(
      in: Self.key(first)...Self.key(last), of: keyspace, order: order, limit: limit)
    try note(entries, first..<last + 1, &committed) { key in
      guard entries.count == limit, let end = entries.last?.key else { return true }
      return order == .ascending ? key <= end : key >= end
    }
  }

  /// Notes entries that were read, and the lists without an entry that were seen to be empty.
  ///
  /// - Throws: ``HistoryChecker/UnrepeatableRead``.
  private func note(
    _ entries: [Store.Entry], _ numbers: Range<Int>, _ committed: inout HistoryChecker.Committed,
    isSeen: (Key) -> Bool
  ) throws {
    var found: [Key: [HistoryChecker.ID]] = [:]
    for number in numbers where isSeen(Self.key(number)) { found[Self.key(number)] = [] }
    for entry in entries { found[entry.key] = Self.list(entry.value) }
    for (key, list) in found { try committed.note("\(key)", list) }
  }

  private static func key(_ number: Int) -> Key { Key("list \(10 + number)") }

  /// Returns the list that a value contains; the empty list when there is no value.
  package static func list(_ bytes: [UInt8]?) -> [HistoryChecker.ID] {
    guard let bytes else { return [] }
    return stride(from: 0, to: bytes.count, by: 4).map { place in
      bytes[place..<place + 4].reversed().reduce(0) { $0 << 8 | HistoryChecker.ID($1) }
    }
  }

  /// Returns the value that contains a list.
  package static func bytes(_ list: [HistoryChecker.ID]) -> [UInt8] {
    list.flatMap { id in (0..<4).map { UInt8(truncatingIfNeeded: id >> (8 * $0)) } }
  }
}

extension SeededGenerator {
  fileprivate mutating func below(_ end: Int) -> Int { Int(next() % UInt64(end)) }
}
