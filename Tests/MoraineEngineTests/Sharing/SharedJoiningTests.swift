import MoraineTesting
import Testing

@testable import MoraineEngine

/// Openings that begin before the store exists, and join it later.
@Suite(.timeLimit(.minutes(10))) struct SharedJoiningTests {
  /// Regression: two calls wanted to join. The second waited on the committing thread for the
  /// writer's lock; the write of the first call held that lock, and waited for the committing
  /// thread: nothing continued for a minute, in any process.
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
      // A wait for the lock takes up to a minute; a correct run takes some milliseconds.
      try #require(ContinuousClock.now - began < .seconds(30), "round \(round)")
      #expect(try await first.value(forKey: "b") == [2])
      try await late.close()
      try await first.close()
    }
  }
}
