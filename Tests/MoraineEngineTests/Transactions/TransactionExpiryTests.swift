import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Expiries of entries that a transaction replaces.
@Suite(.timeLimit(.minutes(10))) struct TransactionExpiryTests {
  /// Regression: the snapshot of a store without entries that expire has no time, and the entry
  /// counted only if it had not ended before the commit.
  @Test func unchangedEntryEndsWithOneThatCameAndEndedInBetween() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: .mapped)
    configuration.clock = clock
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([0], forKey: "other")
    try await store.transaction { transaction in
      try await store.set([1], forKey: "session", expiring: .after(.seconds(5)))
      clock.advance(by: .seconds(6))
      try transaction.set([2], forKey: "session", expiring: .unchanged)
    }
    #expect(try await store.value(forKey: "session") == nil)
    #expect(try await store.value(forKey: "other") == [0])
    try await store.close()
  }

  /// The transaction sees a snapshot that another reader has taken before, at an earlier time.
  @Test func unchangedEntryReplacesNoneThatHadEndedBefore() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: .mapped)
    configuration.clock = clock
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([0], forKey: "other", expiring: .after(.seconds(60)))
    let snapshot = try await store.snapshot()
    clock.advance(by: .seconds(6))
    try await store.transaction { transaction in
      // It has ended before it is written.
      try await store.set([1], forKey: "session", expiring: .at(milliseconds: 1_005_000))
      try transaction.set([2], forKey: "session", expiring: .unchanged)
    }
    #expect(try await store.value(forKey: "session") == [2])
    withExtendedLifetime(snapshot) {}
    try await store.close()
  }
}
