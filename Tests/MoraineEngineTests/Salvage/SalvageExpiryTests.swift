import MoraineStorage
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
}
