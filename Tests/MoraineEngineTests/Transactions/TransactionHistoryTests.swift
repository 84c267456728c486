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

  private static func transact(
    _ store: Store, _ history: History, _ seed: UInt64, isOrdered: Bool
  ) async throws {
    let transaction = try ListTransaction(
      id: history.newID(), seed: seed, isOrdered: isOrdered, in: store)
    let began = history.now()
    var committed = try await transaction.run(on: store)
    committed.began = began
    committed.ended = history.now()
    history.add(committed)
  }

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
    let final = try await ListTransaction.lists(of: stores[0])
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
