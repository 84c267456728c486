import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// The anomalies of Martin Kleppmann's Hermitage (github.com/ept/hermitage), with two rows in an
/// ordered keyspace. None of them happens. A second transaction runs inside the body of the first
/// one, where a database would have two connections.
@Suite(.timeLimit(.minutes(10))) struct HermitageTests {
  private let store: Store
  private let rows: Keyspace

  init() async throws {
    var configuration = Store.Configuration.testing()
    configuration.ordersKeyspaces = false
    store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    rows = try store.orderedKeyspace(named: "rows")
    try await rows.set([10], forKey: "1")
    try await rows.set([20], forKey: "2")
  }

  private func row(_ transaction: Store.Transaction, _ key: Key) throws -> UInt8? {
    try transaction.value(forKey: key, in: rows)?.first
  }

  private func set(_ transaction: Store.Transaction, _ key: Key, _ value: UInt8) throws {
    try transaction.set([value], forKey: key, in: rows)
  }

  private func values() async throws -> [UInt8?] {
    [try await rows.value(forKey: "1")?.first, try await rows.value(forKey: "2")?.first]
  }

  private func isConflict(_ body: () async throws -> Void) async throws -> Bool {
    do {
      try await body()
      return false
    } catch let error as StoreError where error.code == .conflict {
      return true
    }
  }

  /// G0, write cycles: the writes of two transactions do not mix.
  @Test func writesOfTwoTransactionsDoNotMix() async throws {
    try await store.transaction(retries: 0) { first in
      try set(first, "1", 11)
      try await store.transaction(retries: 0) { second in
        try set(second, "1", 12)
        try set(second, "2", 22)
      }
      try set(first, "2", 21)
    }
    #expect(try await values() == [11, 21])
  }

  /// G1a, aborted reads.
  @Test func writesOfAFailedTransactionAreNotSeen() async throws {
    struct Abort: Error {}
    await #expect(throws: Abort.self) {
      try await store.transaction { first in
        try set(first, "1", 101)
        #expect(try await values() == [10, 20])
        throw Abort()
      }
    }
    #expect(try await values() == [10, 20])
  }

  /// G1b, intermediate reads.
  @Test func intermediateWritesAreNotSeen() async throws {
    try await store.transaction { first in
      try set(first, "1", 101)
      #expect(try await values() == [10, 20])
      try set(first, "1", 11)
    }
    #expect(try await values() == [11, 20])
  }

  /// G1c, circular information flow.
  @Test func twoTransactionsDoNotSeeEachOther() async throws {
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        try set(first, "1", 11)
        try await store.transaction(retries: 0) { second in
          try set(second, "2", 22)
          #expect(try row(second, "1") == 10)
        }
        #expect(try row(first, "2") == 20)
      }
    }
    #expect(isRefused)
  }

  /// OTV, observed transaction vanishes.
  @Test func committedTransactionDoesNotVanish() async throws {
    try await store.transaction { first in
      try set(first, "1", 11)
      try set(first, "2", 19)
    }
    let seen = try await store.transaction { third in
      let one = try row(third, "1")
      try await store.transaction { second in
        try set(second, "1", 12)
        try set(second, "2", 18)
      }
      return [one, try row(third, "2"), try row(third, "1")]
    }
    #expect(seen == [11, 19, 11])
  }

  /// PMP, predicate-many-preceders: for reads, and for writes that follow from them.
  @Test func rangeDoesNotChangeDuringATransaction() async throws {
    let counts = try await store.transaction { first in
      let before = try first.entries(of: rows).count { $0.value == [30] }
      try await rows.set([30], forKey: "3")
      return [before, try first.entries(of: rows).count { $0.value == [30] }]
    }
    #expect(counts == [0, 0])
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        for entry in try first.entries(of: rows) where entry.value == [20] {
          try first.removeValue(forKey: entry.key, in: rows)
        }
        try await rows.set([20], forKey: "1")
      }
    }
    #expect(isRefused)
  }

  /// P4, lost update.
  @Test func noUpdateIsLost() async throws {
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        let old = try row(first, "1") ?? 0
        try await store.transaction(retries: 0) { second in
          try set(second, "1", (try row(second, "1") ?? 0) + 1)
        }
        try set(first, "1", old + 1)
      }
    }
    #expect(isRefused)
    #expect(try await values() == [11, 20])
  }

  /// G-single, read skew: in reads, in a range, and in a write that follows.
  @Test func readsAreOfOneMoment() async throws {
    let seen = try await store.transaction { first in
      let one = try row(first, "1")
      try await store.transaction { second in
        try set(second, "1", 12)
        try set(second, "2", 18)
      }
      return [one, try row(first, "2"), try first.last(of: rows)?.value.first]
    }
    #expect(seen == [10, 20, 20])
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        _ = try row(first, "1")
        try await rows.set([1], forKey: "1")
        try set(first, "2", 0)
      }
    }
    #expect(isRefused)
  }

  /// G2-item, write skew.
  @Test func writeSkewIsRefused() async throws {
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        _ = (try row(first, "1"), try row(first, "2"))
        try await store.transaction(retries: 0) { second in
          _ = (try row(second, "1"), try row(second, "2"))
          try set(second, "2", 21)
        }
        try set(first, "1", 11)
      }
    }
    #expect(isRefused)
    #expect(try await values() == [10, 21])
  }

  /// G2, anti-dependency cycles: two ranges, two insertions.
  @Test func writeSkewOverRangesIsRefused() async throws {
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        #expect(try first.entries(in: "3"..<"5", of: rows).isEmpty)
        try await store.transaction(retries: 0) { second in
          #expect(try second.entries(in: "3"..<"5", of: rows).isEmpty)
          try set(second, "4", 42)
        }
        try set(first, "3", 30)
      }
    }
    #expect(isRefused)
    #expect(try await rows.keys(limit: 9) == ["1", "2", "4"])
  }

  /// G2 with two edges: the read of a third transaction between them.
  @Test func readBetweenTwoWritesIsRefused() async throws {
    let isRefused = try await isConflict {
      try await store.transaction(retries: 0) { first in
        _ = try first.entries(of: rows)
        try await store.transaction(retries: 0) { second in
          try set(second, "2", (try row(second, "2") ?? 0) + 5)
        }
        let third = try await store.transaction { third in try third.entries(of: rows).map(\.value)
        }
        #expect(third == [[10], [25]])
        try set(first, "1", 0)
      }
    }
    #expect(isRefused)
  }
}
