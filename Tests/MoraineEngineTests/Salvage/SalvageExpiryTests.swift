import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A salvage copies entries that have ended, too: the clock may be wrong.
@Suite struct SalvageExpiryTests {
  /// Regression: a salvage that took more than ten seconds deleted copied entries that had ended by
  /// the clock of the system, and reported no loss.
  @Test func theStoreThatASalvageFillsDeletesNoEntryThatHasEnded() async throws {
    let staged = try RestoreWork.stage("salvaged", on: MemoryStorage())
    let store = try await Store.openStaged(staged, "salvaged")
    for number in 0..<10 {
      try await store.set([1], forKey: Key("\(number)"), expiring: .at(milliseconds: 1))
    }
    // The store does the same in the background, from time to time.
    #expect(try await store.removeExpired() == 0)
    #expect(try await store.statistics().count == 10)
    try await store.close()
    try RestoreWork.finish(staged)
  }

  /// Regression: a salvage left out the delete of an entry that had ended by then, and kept the
  /// entry. The clock of the salvage may be ahead.
  @Test(arguments: [0, 3000])
  func deletedEntryThatHasEndedStaysDeleted(between count: Int) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing()
    configuration.clock = ManualClock(startingAt: 1000)
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "a", expiring: .at(milliseconds: 2000))
    for number in 0..<count { try await store.set([2], forKey: Key("\(number % 10)")) }
    try await store.removeValue(forKey: "a")
    try await store.close()
    let report = try await Store.salvage("store", to: "salvaged", on: storage)
    #expect(report.losses.isEmpty)
    let found = try Store(on: storage, at: "salvaged", configuration: configuration)
    #expect(try await found.value(forKey: "a") == nil)
    #expect(try await found.statistics().count == min(count, 10))
    try await found.close()
  }
}
