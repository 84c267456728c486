import MoraineTesting
import Testing

@testable import MoraineEngine

/// Openings that begin before anybody has made the store, and join it later.
@Suite(.timeLimit(.minutes(10))) struct SharedJoiningTests {
  /// Regression: of two calls that wanted to join, the second waited on the committing thread for
  /// the writer's lock, which the first one's write had, and that write waited for the thread:
  /// nothing went on for a minute, in any process.
  @Test func callsThatJoinAStoreAtOnceDoNotBlockEachOther() async throws {
    for round in 0..<100 {
      let directory = try TestDirectory()
      let late = try Store(at: directory.path, configuration: .shared())
      let first = try Store(at: directory.path, configuration: .shared())
      try await first.set([1], forKey: "a")
      let began = ContinuousClock.now
      try await withThrowingTaskGroup { group in
        for number in 0..<16 {
          group.addTask {
            if number == 0 {
              try await late.set([2], forKey: "b")
            } else {
              try await late.joinOthers()
            }
          }
        }
        try await group.waitForAll()
      }
      // The lock is waited for a minute; what is right takes some milliseconds.
      try #require(ContinuousClock.now - began < .seconds(30), "round \(round)")
      #expect(try await first.value(forKey: "b") == [2])
      try await late.close()
      try await first.close()
    }
  }
}
