import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// What a transaction reads and writes, and with what it conflicts.
@Suite(.timeLimit(.minutes(10))) struct TransactionTests {
  private struct Refusal: Error {}

  private final class Flag: Sendable {
    let isSet = Atomic<Bool>(false)
  }

  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private static func store(
    _ mode: Store.Configuration.IOMode = .mapped
  ) throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode)
    configuration.ordersKeyspaces = false
    return try Store(on: MemoryStorage(), at: "store", configuration: configuration)
  }

  /// Runs a transaction once, and another write while its body runs.
  ///
  /// - Returns: the conflict; nil when the transaction was committed.
  private static func conflict(
    _ store: Store, meeting write: @Sendable () async throws -> Void,
    _ body: @Sendable (Store.Transaction) throws -> Void
  ) async throws -> StoreError.Conflict? {
    do {
      try await store.transaction(retries: 0) { transaction in
        try body(transaction)
        try transaction.set([9], forKey: "result")
        try await write()
      }
      return nil
    } catch let error as StoreError where error.code == .conflict {
      #expect(try await store.value(forKey: "result") == nil)
      return error.conflict
    }
  }

  @Test(arguments: modes)
  func transactionReadsItsOwnWritesAndOneMoment(_ mode: Store.Configuration.IOMode) async throws {
    let store = try Self.store(mode)
    let other = try store.keyspace(named: "other")
    try await store.set([1], forKey: "a")
    let sequence = try await store.transaction { transaction in
      #expect(try transaction.value(forKey: "a") == [1])
      #expect(try transaction.value(forKey: "a", in: other) == nil)
      try transaction.set([2], forKey: "a", in: other)
      try transaction.set([3], forKey: "b")
      try transaction.removeValue(forKey: "a")
      #expect(try transaction.value(forKey: "a") == nil)
      #expect(try transaction.value(forKey: "a", in: other) == [2])
      #expect(try transaction.contains("b"))
      #expect(try transaction.contains("a") == false)
      // The write of another task is not seen, and is no conflict: nothing of it was read.
      try await store.set([4], forKey: "c")
      #expect(try transaction.value(forKey: "c", isTracked: false) == nil)
      return transaction.sequence
    }
    #expect(sequence == SequenceNumber(rawValue: 1))
    #expect(try await store.value(forKey: "a") == nil)
    #expect(try await store.value(forKey: "b") == [3])
    #expect(try await other.value(forKey: "a") == [2])
    try await store.close()
  }

  @Test func errorOfTheBodyLeavesNothing() async throws {
    let store = try Self.store()
    await #expect(throws: Refusal.self) {
      try await store.transaction { transaction in
        try transaction.set([1], forKey: "a")
        throw Refusal()
      }
    }
    #expect(try await store.count() == 0)
    try await store.close()
  }

  @Test func changedKeyIsAConflictThatNamesIt() async throws {
    let store = try Self.store()
    let keyspace = try store.keyspace(named: "accounts")
    try await keyspace.set([1], forKey: "a")
    let conflict = try await Self.conflict(
      store, meeting: { try await keyspace.set([1], forKey: "a") }
    ) { transaction in
      _ = try transaction.value(forKey: "a", in: keyspace)
    }
    #expect(conflict == StoreError.Conflict(keyspace: "accounts", key: "a"))
    try await store.close()
  }

  /// The body runs again, and sees what the other writer has written.
  @Test func conflictLetsTheBodyRunAgain() async throws {
    let store = try Self.store()
    let attempts = Atomic<Int>(0)
    let value = try await store.transaction { transaction in
      let value = try transaction.value(forKey: "a") ?? []
      if attempts.add(1, ordering: .relaxed).oldValue < 2 {
        try await store.set(value + [7], forKey: "a")
      }
      try transaction.set(value + [1], forKey: "a")
      return value
    }
    #expect(value == [7, 7])
    #expect(attempts.load(ordering: .relaxed) == 3)
    #expect(try await store.value(forKey: "a") == [7, 7, 1])
    try await store.close()
  }

  @Test func appearanceAndRemovalOfAReadKeyAreConflicts() async throws {
    let store = try Self.store()
    try await store.set([1], forKey: "there")
    for key in ["there", "missing"] as [Key] {
      let conflict = try await Self.conflict(
        store,
        meeting: {
          if try await store.removeValue(forKey: key) == nil {
            try await store.set([1], forKey: key)
          }
        }
      ) { _ = try $0.contains(key) }
      #expect(conflict == StoreError.Conflict(keyspace: "", key: key))
    }
    try await store.close()
  }

  @Test func blindWritesAndUntrackedReadsConflictWithNothing() async throws {
    let store = try Self.store()
    let ordered = try store.orderedKeyspace(named: "ordered")
    try await ordered.set([1], forKey: "a")
    let conflict = try await Self.conflict(
      store,
      meeting: {
        try await store.set([1], forKey: "a")
        try await ordered.set([2], forKey: "a")
        try await ordered.set([2], forKey: "b")
      }
    ) { transaction in
      try transaction.set([5], forKey: "a")
      try transaction.removeValue(forKey: "a", in: ordered)
      _ = try transaction.value(forKey: "b", in: ordered, isTracked: false)
      _ = try transaction.entries(of: ordered, isTracked: false)
      _ = try transaction.count(of: ordered, isTracked: false)
      _ = try transaction.allEntries(of: ordered, isTracked: false)
    }
    #expect(conflict == nil)
    #expect(try await store.value(forKey: "a") == [5])
    #expect(try await ordered.contains("a") == false)
    try await store.close()
  }

  /// A key that appears in a range that was read is a phantom; one outside is not.
  @Test(arguments: modes)
  func keysInAReadRangeAreConflicts(_ mode: Store.Configuration.IOMode) async throws {
    let cases:
      [(
        written: Key, isConflict: Bool, read: @Sendable (Store.Transaction, Keyspace) throws -> Void
      )] = [
        ("m2", true, { _ = try $0.entries(in: "m"..<"n", of: $1) }),
        ("m95", true, { _ = try $0.entries(in: "m"..<"n", of: $1) }),
        ("n", false, { _ = try $0.entries(in: "m"..<"n", of: $1) }),
        ("a", false, { _ = try $0.entries(in: "m"..<"n", of: $1) }),
        ("m2", true, { _ = try $0.count(in: "m"..<"n", of: $1) }),
        // Only the part up to the second entry was read.
        ("m05", true, { _ = try $0.entries(in: "m"..<"n", of: $1, limit: 2) }),
        ("m7", false, { _ = try $0.entries(in: "m"..<"n", of: $1, limit: 2) }),
        ("m95", true, { _ = try $0.entries(in: "m"..<"n", of: $1, order: .descending, limit: 2) }),
        ("m15", false, { _ = try $0.entries(in: "m"..<"n", of: $1, order: .descending, limit: 2) }),
        ("a", true, { _ = try $0.first(of: $1) }),
        ("z", false, { _ = try $0.first(of: $1) }),
        ("z", true, { _ = try $0.last(of: $1) }),
        ("x", true, { _ = try $0.entries(in: "x"..."y", of: $1) }),
      ]
    for (place, each) in cases.enumerated() {
      let store = try Self.store(mode)
      let keyspace = try store.orderedKeyspace(named: "ordered")
      try await store.write { batch in
        for number in 0..<10 { try batch.set([1], forKey: Key("m\(number)"), in: keyspace) }
        for number in 0..<900 { try batch.set([1], forKey: Key("q\(1000 + number)"), in: keyspace) }
      }
      let conflict = try await Self.conflict(
        store, meeting: { try await keyspace.set([2], forKey: each.written) }
      ) { try each.read($0, keyspace) }
      #expect((conflict != nil) == each.isConflict, "case \(place)")
      if each.isConflict {
        #expect(conflict == StoreError.Conflict(keyspace: "ordered", key: each.written))
      }
      try await store.close()
    }
  }

  /// A compaction moves every record, and changes nothing that was read.
  @Test(arguments: modes)
  func compactionIsNoConflict(_ mode: Store.Configuration.IOMode) async throws {
    let store = try Self.store(mode)
    let ordered = try store.orderedKeyspace(named: "ordered")
    for round in 0..<3 {
      for number in 0..<600 {
        try await ordered.set([UInt8(round)], forKey: Key("key \(number)"))
        try await store.set([UInt8(round)], forKey: Key("key \(number)"))
      }
    }
    let conflict = try await Self.conflict(
      store,
      meeting: {
        try await store.set([1], forKey: "unrelated")
        try await store.compact()
      }
    ) { transaction in
      let entries = try transaction.entries(of: ordered)
      let value = try transaction.value(forKey: "key 7")
      #expect(entries.count == 600 && value == [2])
    }
    #expect(conflict == nil)
    try await store.close()
  }

  @Test func readingAllOfAKeyspaceSeesPhantoms() async throws {
    let store = try Self.store()
    let keyspace = try store.keyspace(named: "hashed")
    for number in 0..<20 { try await keyspace.set([1], forKey: Key("\(number)")) }
    for key in ["5", "new"] as [Key] {
      let conflict = try await Self.conflict(
        store, meeting: { try await keyspace.set([2], forKey: key) }
      ) { transaction in
        let entries = try transaction.allEntries(of: keyspace)
        #expect(entries.count >= 20)
      }
      #expect(conflict?.keyspace == "hashed")
    }
    let conflict = try await Self.conflict(
      store, meeting: { try await store.set([2], forKey: "elsewhere") }
    ) { _ = try $0.allEntries(of: keyspace) }
    #expect(conflict == nil)
    try await store.close()
  }

  /// After the last attempt the error says how many there were; nothing was written.
  @Test func exhaustedRetriesThrowAConflict() async throws {
    let store = try Self.store()
    let attempts = Atomic<Int>(0)
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction(retries: 1) { transaction in
        _ = try transaction.value(forKey: "a")
        let attempt = attempts.add(1, ordering: .relaxed).newValue
        try await store.set([UInt8(attempt)], forKey: "a")
        try transaction.set([9], forKey: "b")
      }
    }
    #expect(error?.code == .conflict)
    #expect(error?.conflict == StoreError.Conflict(keyspace: "", key: "a"))
    #expect(attempts.load(ordering: .relaxed) == 2)
    #expect(try await store.value(forKey: "b") == nil)
    try await store.close()
  }

  /// A body that other writers disturb without end succeeds, because they wait for its turn.
  @Test(arguments: [false, true])
  func shortBodySucceedsBesideBusyWriters(isShared: Bool) async throws {
    let configuration = isShared ? Store.Configuration.shared() : .testing()
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let flag = Flag()
    let sum = try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<3 {
        group.addTask {
          var count = 0
          while !flag.isSet.load(ordering: .relaxed) {
            try await store.update("counter") { old in [(old?.first ?? 0) &+ 1] }
            count += 1
          }
          return count
        }
      }
      group.addTask {
        for _ in 0..<40 {
          try await store.transaction(retries: 1000) { transaction in
            let old = try transaction.value(forKey: "counter")
            for _ in 0..<20 { await Task.yield() }
            try transaction.set([(old?.first ?? 0) &+ 1], forKey: "counter")
          }
        }
        flag.isSet.store(true, ordering: .relaxed)
        return 40
      }
      return try await group.reduce(0, +)
    }
    let counter = try await store.value(forKey: "counter")
    #expect(counter == [UInt8(truncatingIfNeeded: sum)])
    try await store.close()
  }

  /// A body that takes longer than its turn, or writes to the store itself, lets the others go on.
  @Test func turnEndsAlthoughTheBodyGoesOn() async throws {
    let store = try Self.store()
    let attempts = Atomic<Int>(0)
    try await store.transaction(retries: 10) { transaction in
      let value = try transaction.value(forKey: "a") ?? []
      let attempt = attempts.add(1, ordering: .relaxed).newValue
      // This write waits for the end of the turn, from the fourth attempt on.
      if attempt < 6 { try await store.set([UInt8(attempt)], forKey: "a") }
      try transaction.set(value + [100], forKey: "b")
    }
    #expect(attempts.load(ordering: .relaxed) == 6)
    #expect(try await store.value(forKey: "b") == [5, 100])
    try await store.close()
  }

  /// Ranges show own writes in the order of the keys.
  @Test(arguments: 0..<20 as Range<UInt64>)
  func rangesShowOwnWritesInOrder(seed: UInt64) async throws {
    let store = try Self.store(seed % 2 == 0 ? .mapped : .positional)
    let keyspace = try store.orderedKeyspace(named: "ordered")
    var random = SeededGenerator(seed: seed)
    func key() -> Key { Key("\(random.next() % 60)") }
    var stored: [Key: [UInt8]] = [:]
    for number in 0..<Int(random.next() % 80) {
      let key = key()
      stored[key] = [UInt8(number)]
      try await keyspace.set([UInt8(number)], forKey: key)
    }
    let writes = (0..<Int(random.next() % 40)).map { number in
      (key(), random.next() % 3 == 0 ? nil : [UInt8(number), 1])
    }
    for (key, value) in writes { stored[key] = value }
    let model = stored
    let bounds = [key(), key()].sorted()
    let (range, limit) = (bounds[0]...bounds[1], 1 + Int(random.next() % 30))
    let expected = model.filter { range.contains($0.key) }.sorted { $0.key < $1.key }
    try await store.transaction { transaction in
      for (key, value) in writes {
        if let value {
          try transaction.set(value, forKey: key, in: keyspace)
        } else {
          try transaction.removeValue(forKey: key, in: keyspace)
        }
      }
      let up = try transaction.entries(in: range, of: keyspace, limit: limit)
      #expect(up.map(\.key) == expected.prefix(limit).map(\.key), "seed \(seed)")
      #expect(up.map(\.value) == expected.prefix(limit).map(\.value), "seed \(seed)")
      let down = try transaction.entries(in: range, of: keyspace, order: .descending, limit: limit)
      #expect(down.map(\.key) == expected.reversed().prefix(limit).map(\.key), "seed \(seed)")
      #expect(try transaction.count(in: range, of: keyspace) == expected.count, "seed \(seed)")
      #expect(try transaction.first(in: range, of: keyspace)?.key == expected.first?.key)
      #expect(try transaction.last(in: range, of: keyspace)?.key == expected.last?.key)
      let all = try transaction.allEntries(of: keyspace).map { ($0.key, $0.value) }
      #expect(Dictionary(uniqueKeysWithValues: all) == model, "seed \(seed)")
    }
    #expect(try await keyspace.keys(limit: 1000) == model.keys.sorted(), "seed \(seed)")
    try await store.close()
  }

  /// A keyspace becomes ordered when a transaction first reads a range of it.
  @Test func rangeOfAHashedKeyspaceOrdersIt() async throws {
    let store = try Self.store()
    for number in 0..<30 {
      try await store.keyspace(named: "k").set([1], forKey: Key("\(10 + number)"))
    }
    let ordered = try store.orderedKeyspace(named: "k")
    let keys = try await store.transaction { transaction in
      try transaction.entries(in: "12"..."14", of: ordered).map(\.key)
    }
    #expect(keys == ["12", "13", "14"])
    let hashed = try store.keyspace(named: "h")
    try await hashed.set([1], forKey: "a")
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction { _ = try $0.entries(of: hashed) }
    }
    #expect(error?.code == .invalidArgument)
    try await store.close()
  }

  /// A transaction creates the store and its keyspaces.
  @Test func firstTransactionCreatesTheStore() async throws {
    let store = try Self.store()
    let ordered = try store.orderedKeyspace(named: "ordered")
    try await store.transaction { transaction in
      #expect(try transaction.entries(of: ordered).isEmpty)
      #expect(try transaction.value(forKey: "a") == nil)
      try transaction.set([1], forKey: "a", in: ordered)
    }
    #expect(try await ordered.first()?.value == [1])
    try await store.close()
  }

  /// Regression: the commit reported a damaged index.
  @Test func rangeOfTheUnnamedKeyspaceOfANewStoreIsEmpty() async throws {
    let store = try Self.store()
    let unnamed = try store.orderedKeyspace(named: "")
    try await store.transaction { transaction in
      #expect(try transaction.entries(of: unnamed).isEmpty)
      try transaction.set([1], forKey: "a", in: unnamed)
    }
    #expect(try await unnamed.keys(limit: 9) == ["a"])
    try await store.close()
  }

  /// Another task creates the keyspace, without order, after the transaction has found it missing.
  @Test func keyspaceThatAppearsWithoutOrderIsAConflict() async throws {
    let store = try Self.store()
    let ordered = try store.orderedKeyspace(named: "k")
    let attempts = Atomic<Int>(0)
    let keys = try await store.transaction { transaction in
      let keys = try transaction.entries(of: ordered).map(\.key)
      if attempts.add(1, ordering: .relaxed).newValue == 1 {
        try await store.keyspace(named: "k").set([1], forKey: "theirs")
      }
      try transaction.set([1], forKey: "mine", in: ordered)
      return keys
    }
    #expect(keys == ["theirs"])
    #expect(try await ordered.keys(limit: 9) == ["mine", "theirs"])
    try await store.close()
  }

  /// A handle without order reads no range, whether its keyspace exists or not.
  @Test func rangeOfAMissingHashedKeyspaceIsRefused() async throws {
    let store = try Self.store()
    let hashed = try store.keyspace(named: "missing")
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction { _ = try $0.entries(of: hashed) }
    }
    #expect(error?.code == .invalidArgument)
    try await store.close()
  }

  @Test func readOnlyStoreTakesTransactionsThatOnlyRead() async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing()
    let writer = try Store(on: storage, at: "store", configuration: configuration)
    try await writer.set([1], forKey: "a")
    try await writer.close()
    configuration.isReadOnly = true
    let store = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await store.transaction { try $0.value(forKey: "a") } == [1])
    let attempts = Atomic<Int>(0)
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction { transaction in
        attempts.add(1, ordering: .relaxed)
        try transaction.set([2], forKey: "a")
      }
    }
    #expect(error?.code == .readOnly)
    #expect(attempts.load(ordering: .relaxed) == 1)
    try await store.close()
  }

  /// The log has the writes in the order of the calls, over all keyspaces.
  @Test func writesKeepTheOrderOfTheCalls() async throws {
    let store = try Self.store()
    let other = try store.keyspace(named: "other")
    let numbers = (0..<50).shuffled()
    try await store.transaction { transaction in
      for number in numbers {
        let keyspace = number % 2 == 0 ? other : nil
        try transaction.set([UInt8(number)], forKey: Key("\(number)"), in: keyspace)
      }
    }
    var sequences: [SequenceNumber] = []
    for number in numbers {
      let keyspace = try store.keyspace(named: number % 2 == 0 ? "other" : "")
      let found = try await keyspace.versionedValue(forKey: Key("\(number)"))
      sequences.append(try #require(found).sequence)
    }
    #expect(sequences == sequences.sorted())
    try await store.close()
  }

  /// Closing, or an error of the body, during a turn leaves no gate held.
  @Test func errorDuringATurnLetsOthersGoOn() async throws {
    let store = try Self.store()
    let attempts = Atomic<Int>(0)
    await #expect(throws: Refusal.self) {
      try await store.transaction { transaction in
        _ = try transaction.value(forKey: "a")
        try transaction.set([1], forKey: "b")
        let attempt = attempts.add(1, ordering: .relaxed).newValue
        if attempt == 4 { throw Refusal() }
        try await store.set([UInt8(attempt)], forKey: "a")
      }
    }
    #expect(attempts.load(ordering: .relaxed) == 4)
    try await store.set([9], forKey: "a")
    let closing = Atomic<Int>(0)
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction { transaction in
        _ = try transaction.value(forKey: "a")
        try transaction.set([1], forKey: "b")
        let attempt = closing.add(1, ordering: .relaxed).newValue
        if attempt < 4 {
          try await store.set([UInt8(attempt)], forKey: "a")
        } else {
          try await store.close()
        }
      }
    }
    #expect(error?.code == .closed)
  }

  /// A sound store must not be reported as damaged.
  @Test func filesThatAnotherOpeningHasRemovedAreAConflict() async throws {
    let storage = MemoryStorage()
    let configuration = Store.Configuration.shared(.positional, segmentSizeBytes: 400)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let other = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<30 { try await store.set([1], forKey: Key("\(number)")) }
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction(retries: 0) { transaction in
        for number in 0..<30 { try await other.set([2], forKey: Key("\(number)")) }
        try await other.compact()
        _ = try transaction.value(forKey: "0")
      }
    }
    #expect(error?.code == .conflict)
    #expect(error?.conflict == StoreError.Conflict(keyspace: "", key: nil))
    let value = try await store.transaction(retries: 1) { try $0.value(forKey: "0") }
    #expect(value == [2])
    try await store.close()
    try await other.close()
  }

  /// The clock passes the end of an entry between the beginning of a transaction and its commit.
  @Test(arguments: [nil, "key", "untracked key", "range"])
  func unchangedEntryEndsWithTheEntryThatItReplaces(reading: String?) async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: .mapped)
    configuration.clock = clock
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let sessions = try store.orderedKeyspace(named: "sessions")
    try await sessions.set([1], forKey: "session", expiring: .at(milliseconds: 1_005_000))
    try await store.transaction { transaction in
      switch reading {
      case "key": _ = try transaction.value(forKey: "session", in: sessions)
      case "untracked key":
        _ = try transaction.value(forKey: "session", in: sessions, isTracked: false)
      case "range": _ = try transaction.entries(of: sessions)
      default: break
      }
      clock.advance(by: .seconds(6))
      try transaction.set([2], forKey: "session", in: sessions, expiring: .unchanged)
    }
    #expect(try await sessions.value(forKey: "session") == nil)
    try await store.transaction { transaction in
      try transaction.set([3], forKey: "session", in: sessions, expiring: .unchanged)
    }
    // An entry that had ended before is no entry that is replaced.
    #expect(try await sessions.value(forKey: "session") == [3])
    try await store.close()
  }

  /// Another process sets and removes the keys of a range while it is removed.
  @Test func rangeOfASharedStoreIsRemovedBesideAWriter() async throws {
    let storage = MemoryStorage()
    let configuration = Store.Configuration.shared(.positional, segmentSizeBytes: 4000)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let other = try Store(on: storage, at: "store", configuration: configuration)
    let leases = try store.orderedKeyspace(named: "leases")
    let others = try other.orderedKeyspace(named: "leases")
    let flag = Flag()
    let writer = Task {
      while !flag.isSet.load(ordering: .acquiring) {
        try await others.set([1], forKey: "lease/1")
        try await others.removeValue(forKey: "lease/1")
      }
    }
    for _ in 0..<300 { try await leases.removeAll(in: .prefix("lease/")) }
    flag.isSet.store(true, ordering: .releasing)
    try await writer.value
    try await store.close()
    try await other.close()
  }
}
