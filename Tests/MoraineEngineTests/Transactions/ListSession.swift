import MoraineEngine
import MoraineTesting

/// A client of a store that runs random operations over lists: transactions, batches, and sets with
/// a condition. It waits for its turn between its steps.
struct ListSession: Sendable {
  let number: Int
  let seed: UInt64
  let operationCount: Int
  let store: Store
  let turns: Turns
  let log: HistoryLog

  /// An error with which the body of a transaction ends, after it has written.
  private struct GivenUp: Error {}

  func run() async throws {
    var random = SeededGenerator(seed: seed)
    let places = try ListPlaces(store)
    for _ in 0..<operationCount {
      await turns.next(number)
      let seed = random.next()
      switch random.below(24) {
      case 0: try await log.recordSync { try await store.sync() }
      case 1: _ = try await store.compact()
      case 2..<5: try await log.record { id in try await writeBatch(id, seed, places) }
      case 5..<8: try await log.record { id in try await compareAndSet(id, seed, places) }
      default: try await log.record { id in try await transact(id, seed, places) }
      }
    }
  }

  /// Runs a transaction that reads lists, alone or as ranges, and appends to some of them.
  ///
  /// - Returns: nil when the transaction was given up or met conflicts: it has written nothing.
  private func transact(
    _ id: HistoryChecker.ID, _ seed: UInt64, _ places: ListPlaces
  ) async throws -> HistoryOperation? {
    var random = SeededGenerator(seed: seed)
    let isDurable = random.below(3) == 0
    let retries = [0, 0, 1, 5][random.below(4)]
    let isGivenUp = random.below(10) == 0
    let rest = random
    do {
      return try await store.transaction(
        retries: retries, durability: isDurable ? .sync : nil
      ) { transaction in
        var random = rest
        var attempt = ListAttempt(id)
        for _ in 0..<1 + random.below(4) {
          await turns.next(number)
          try read(transaction, places, &attempt, &random)
        }
        for write in attempt.appends(&random) {
          let keyspace = write.place.map { places.keyspaces[$0] }
          if let value = write.value {
            try transaction.set(value, forKey: write.key, in: keyspace)
          } else {
            try transaction.removeValue(forKey: write.key, in: keyspace)
          }
        }
        await turns.next(number)
        if isGivenUp { throw GivenUp() }
        return HistoryOperation(
          attempt.committed, sequence: transaction.sequence.rawValue, isDurable: isDurable)
      }
    } catch is GivenUp {
      return nil
    } catch let error as StoreError where error.code == .conflict {
      return nil
    }
  }

  private func read(
    _ transaction: Store.Transaction, _ places: ListPlaces, _ attempt: inout ListAttempt,
    _ random: inout SeededGenerator
  ) throws {
    switch random.below(6) {
    case 0, 1: try readRange(transaction, places, &attempt, &random)
    case 2 where random.below(3) == 0:
      let heap = ListPlaces.orderedCount
      let entries = try transaction.allEntries(of: places.keyspaces[heap])
      try record(
        entries, of: 0..<ListPlaces.listCount, in: heap, transaction, places, &attempt, &random)
    default:
      let list = random.below(ListPlaces.listCount)
      try read(list, in: ListPlaces.shuffled(&random), transaction, places, &attempt)
    }
  }

  /// Reads one list: looks for it in the keyspaces until one has it.
  private func read(
    _ list: Int, in order: [Int], _ transaction: Store.Transaction, _ places: ListPlaces,
    _ attempt: inout ListAttempt
  ) throws {
    let key = ListPlaces.key(list)
    for place in order {
      let value = try transaction.value(forKey: key, in: places.keyspaces[place])
      if let value { return try attempt.record(list, value, in: place) }
    }
    try attempt.record(list, nil, in: nil)
  }

  private func readRange(
    _ transaction: Store.Transaction, _ places: ListPlaces, _ attempt: inout ListAttempt,
    _ random: inout SeededGenerator
  ) throws {
    let place = random.below(ListPlaces.orderedCount)
    let first = random.below(ListPlaces.listCount)
    let last = first + random.below(ListPlaces.listCount - first)
    let range = ListPlaces.key(first)...ListPlaces.key(last)
    let limit = random.below(3) == 0 ? 1 + random.below(3) : Int.max
    let order: KeyOrder = random.below(2) == 0 ? .ascending : .descending
    let entries = try transaction.entries(
      in: range, of: places.keyspaces[place], order: order, limit: limit)
    if entries.count < limit,
      try transaction.count(in: range, of: places.keyspaces[place]) != entries.count
    {
      throw HistoryProblem("a snapshot counts other entries than it returns")
    }
    let seen = (first...last).filter { list in
      guard entries.count == limit, let end = entries.last?.key else { return true }
      return order == .ascending ? ListPlaces.key(list) <= end : ListPlaces.key(list) >= end
    }
    try record(entries, of: seen, in: place, transaction, places, &attempt, &random)
  }

  /// Records entries that were read together. Looks for two of the lists that have no entry there
  /// in the other keyspaces.
  private func record(
    _ entries: [Store.Entry], of seen: some Collection<Int>, in place: Int,
    _ transaction: Store.Transaction, _ places: ListPlaces, _ attempt: inout ListAttempt,
    _ random: inout SeededGenerator
  ) throws {
    var missing: [Int] = []
    for list in seen {
      guard let entry = entries.first(where: { $0.key == ListPlaces.key(list) }) else {
        missing.append(list)
        continue
      }
      try attempt.record(list, entry.value, in: place)
    }
    let others = ListPlaces.shuffled(&random).filter { $0 != place }
    for list in missing.shuffled(using: &random).prefix(2) {
      try read(list, in: others, transaction, places, &attempt)
    }
  }

  /// Reads two lists and appends to some of them, in a batch: at one moment.
  private func writeBatch(
    _ id: HistoryChecker.ID, _ seed: UInt64, _ places: ListPlaces
  ) async throws -> HistoryOperation? {
    let isDurable = seed % 3 == 0
    let attempt = try await store.write(durability: isDurable ? .sync : nil) { batch in
      var random = SeededGenerator(seed: seed)
      var attempt = ListAttempt(id)
      for _ in 0..<2 {
        let list = random.below(ListPlaces.listCount)
        let order = ListPlaces.shuffled(&random)
        var found: (value: [UInt8], place: Int)?
        for place in order where found == nil {
          let keyspace = places.keyspaces[place]
          let value = try batch.value(forKey: ListPlaces.key(list), in: keyspace)
          found = value.map { ($0, place) }
        }
        try attempt.record(list, found?.value, in: found?.place)
      }
      for write in attempt.appends(&random) {
        switch (write.value, write.place.map { places.keyspaces[$0] }) {
        case (let value?, let keyspace?): try batch.set(value, forKey: write.key, in: keyspace)
        case (let value?, nil): try batch.set(value, forKey: write.key)
        case (nil, let keyspace?): try batch.removeValue(forKey: write.key, in: keyspace)
        case (nil, nil): try batch.removeValue(forKey: write.key)
        }
      }
      return attempt
    }
    // What a batch without writes has read has no number that says how much of it is durable.
    if attempt.committed.appends.isEmpty { return nil }
    return HistoryOperation(attempt.committed, sequence: 0, isDurable: isDurable)
  }

  /// Appends to a list if no other writer has changed it since it was read.
  private func compareAndSet(
    _ id: HistoryChecker.ID, _ seed: UInt64, _ places: ListPlaces
  ) async throws -> HistoryOperation? {
    var random = SeededGenerator(seed: seed)
    let isDurable = random.below(3) == 0
    let keyspace = places.keyspaces[random.below(ListPlaces.names.count)]
    let key = ListPlaces.key(random.below(ListPlaces.listCount))
    guard let old = try await keyspace.versionedValue(forKey: key) else { return nil }
    await turns.next(number)
    let ids = ListTransaction.list(old.value)
    let sequence = try await keyspace.set(
      ListTransaction.bytes(ids + [id]), forKey: key,
      if: random.below(2) == 0 ? .sequence(old.sequence) : .value(old.value),
      durability: isDurable ? .sync : nil)
    guard let sequence else { return nil }
    let committed = HistoryChecker.Committed(id: id, reads: ["\(key)": ids], appends: ["\(key)"])
    return HistoryOperation(
      committed, sequence: sequence.rawValue, isDurable: isDurable, hasMark: false)
  }
}
