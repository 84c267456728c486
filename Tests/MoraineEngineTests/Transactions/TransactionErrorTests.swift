import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// What a transaction does with the errors of its body and of its commit.
@Suite(.timeLimit(.minutes(10))) struct TransactionErrorTests {
  /// Regression: a body that caught the error of a range in a keyspace that is not ordered yet ran a
  /// second time when its commit threw after the writes were applied: once more, they were applied.
  @Test func commitThatThrowsAfterItsWritesIsNotRepeated() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: .hashed())
    try await store.keyspace(named: "words").set([1], forKey: "a")
    let words = try store.orderedKeyspace(named: "words")
    let runs = CallCounter()
    let error = await #expect(throws: StoreError.self) {
      try await store.transaction(durability: .replicated) { transaction in
        _ = runs.next()
        let found = (try? transaction.entries(of: words)) ?? []
        let count = try transaction.value(forKey: "count")?[0] ?? UInt8(found.count)
        try transaction.set([count + 1], forKey: "count")
      }
    }
    #expect(error?.code == .archiveUnavailable)
    #expect(runs.value == 1)
    #expect(try await store.value(forKey: "count") == [1])
    try await store.close()
  }

  /// Regression: the error that a body threw was lost when the body had caught the error of a range
  /// before: the body ran again.
  @Test func errorOfABodyThatCaughtTheErrorOfARangeIsThrown() async throws {
    struct Refusal: Error {}
    let store = try Store(on: MemoryStorage(), at: "store", configuration: .hashed())
    try await store.keyspace(named: "words").set([1], forKey: "a")
    let words = try store.orderedKeyspace(named: "words")
    let runs = CallCounter()
    await #expect(throws: Refusal.self) {
      try await store.transaction { transaction in
        _ = runs.next()
        do { _ = try transaction.entries(of: words) } catch { throw Refusal() }
      }
    }
    #expect(runs.value == 1)
    #expect(try await !store.keyspaceStatistics().contains { $0.isOrdered })
    try await store.close()
  }
}
