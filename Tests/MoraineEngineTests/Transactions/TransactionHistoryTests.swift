import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Concurrent transactions over lists, whose history is strictly serializable.
@Suite(.timeLimit(.minutes(10))) struct TransactionHistoryTests {
  /// The transactions that were committed, and a clock that all tasks have in common.
  private final class History: Sendable {
    private let committed = Mutex<[HistoryChecker.Committed]>([])
    private let moments = Atomic<Int>(0)
    private let ids = Atomic<UInt32>(1)

    func now() -> Int { moments.add(1, ordering: .sequentiallyConsistent).newValue }
    func newID() -> UInt32 { ids.add(1, ordering: .sequentiallyConsistent).oldValue }
    func add(_ transaction: HistoryChecker.Committed) {
      committed.withLock { $0.append(transaction) }
    }
    var all: [HistoryChecker.Committed] { committed.withLock { $0 } }
  }

  private static func list(_ bytes: [UInt8]?) -> [UInt32] {
    guard let bytes else { return [] }
    return stride(from: 0, to: bytes.count, by: 4).map { bytes.load(UInt32.self, at: $0) }
  }

  private static func bytes(_ list: [UInt32]) -> [UInt8] {
    list.flatMap { id in (0..<4).map { UInt8(truncatingIfNeeded: id >> (8 * $0)) } }
  }

  private static let listCount = 12

  /// One transaction: reads lists, alone or as a range, and appends to some of the lists it has
  /// read.
  private static func transact(
    _ store: Store, _ history: History, _ seed: UInt64, isOrdered: Bool
  ) async throws {
    let keyspace =
      isOrdered
      ? try store.orderedKeyspace(named: "lists") : try store.keyspace(named: "lists")
    let id = history.newID()
    let began = history.now()
    let result = try await store.transaction(retries: 200) { transaction in
      var random = SeededGenerator(seed: seed)
      var committed = HistoryChecker.Committed(id: id, began: began)
      func below(_ end: Int) -> Int { Int(random.next() % UInt64(end)) }
      if isOrdered, below(2) == 0 {
        let first = below(listCount)
        let last = first + below(listCount - first)
        let limit = below(3) == 0 ? 1 + below(3) : Int.max
        let order: KeyOrder = below(2) == 0 ? .ascending : .descending
        let range = Self.key(first)...Self.key(last)
        let entries = try transaction.entries(in: range, of: keyspace, order: order, limit: limit)
        for entry in entries { committed.reads["\(entry.key)"] = Self.list(entry.value) }
        // The lists of the range that do not exist, as far as it was read.
        for number in first...last where committed.reads["\(Self.key(number))"] == nil {
          let isSeen =
            entries.count < limit
            || (order == .ascending
              ? Self.key(number) < entries.last!.key : Self.key(number) > entries.last!.key)
          if isSeen { committed.reads["\(Self.key(number))"] = [] }
        }
      }
      if !isOrdered, below(20) == 0 {
        for entry in try transaction.allEntries(of: keyspace) {
          committed.reads["\(entry.key)"] = Self.list(entry.value)
        }
        for number in 0..<listCount where committed.reads["\(Self.key(number))"] == nil {
          committed.reads["\(Self.key(number))"] = []
        }
      }
      for _ in 0..<1 + below(4) {
        let key = Self.key(below(listCount))
        committed.reads["\(key)"] = Self.list(try transaction.value(forKey: key, in: keyspace))
      }
      if below(3) == 0 { await Task.yield() }
      for name in committed.reads.keys.sorted() where below(3) == 0 && committed.appends.count < 3 {
        let list = committed.reads[name] ?? []
        try transaction.set(Self.bytes(list + [id]), forKey: Key(name), in: keyspace)
        committed.appends.insert(name)
      }
      return committed
    }
    var committed = result
    committed.ended = history.now()
    history.add(committed)
  }

  private static func key(_ number: Int) -> Key { Key("list \(10 + number)") }

  private static func run(
    _ stores: [Store], isOrdered: Bool, seed: UInt64, perTask: Int, tasks: Int
  ) async throws -> [String] {
    let history = History()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<tasks {
        let store = stores[task % stores.count]
        group.addTask {
          for number in 0..<perTask {
            try await transact(
              store, history, seed &* 1_000_003 &+ UInt64(task * 10_000 + number),
              isOrdered: isOrdered)
          }
        }
      }
      group.addTask {
        for _ in 0..<4 { try await stores[0].compact() }
      }
      try await group.waitForAll()
    }
    var final: [String: [UInt32]] = [:]
    let snapshot = try await stores[0].snapshot().keyspace(named: "lists")
    try snapshot.scan { entry in
      final["\(entry.key)"] = list(entry.value)
      return true
    }
    let all = history.all
    #expect(all.count == perTask * tasks)
    return HistoryChecker.problems(all, final: final)
  }

  @Test(arguments: 0..<6 as Range<UInt64>)
  func concurrentTransactionsAreStrictlySerializable(seed: UInt64) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: 8000, ioMode: seed % 2 == 0 ? .mapped : .positional)
    configuration.ordersKeyspaces = false
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let problems = try await Self.run(
      [store], isOrdered: seed % 3 != 0, seed: seed, perTask: 60, tasks: 8)
    #expect(problems.isEmpty, "seed \(seed): \(problems.prefix(3))")
    try await store.close()
  }

  @Test(arguments: 0..<4 as Range<UInt64>)
  func transactionsOfSeveralProcessesAreStrictlySerializable(seed: UInt64) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.shared(
      seed % 2 == 0 ? .mapped : .positional, segmentSizeBytes: 8000)
    configuration.ordersKeyspaces = false
    let stores = try (0..<3).map { _ in
      try Store(on: storage, at: "store", configuration: configuration)
    }
    let problems = try await Self.run(
      stores, isOrdered: seed < 2, seed: seed, perTask: 25, tasks: 6)
    #expect(problems.isEmpty, "seed \(seed): \(problems.prefix(3))")
    for store in stores { try await store.close() }
  }
}
