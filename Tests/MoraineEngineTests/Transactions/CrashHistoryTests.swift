import Foundation
import Testing

/// Transactions, batches and sets with a condition on a simulated disk that loses its power. After
/// each crash the store contains all operations up to one of them, in the order of their commits.
/// These operations and those that follow are strictly serializable.
///
/// `MORAINE_HISTORY_SEEDS=N` runs N seeds; `MORAINE_HISTORY_SEED=N` is the first of them.
@Suite(.timeLimit(.minutes(10))) struct CrashHistoryTests {
  private static var seeds: Range<UInt64> {
    let environment = ProcessInfo.processInfo.environment
    let first = environment["MORAINE_HISTORY_SEED"].flatMap { UInt64($0) } ?? 0
    let count = environment["MORAINE_HISTORY_SEEDS"].flatMap { UInt64($0) } ?? 6
    return first..<first + count
  }

  @Test(arguments: seeds)
  func historyThatCrashesInterruptIsStrictlySerializable(seed: UInt64) async throws {
    var history = CrashHistory(seed: seed)
    let replay = """
      MORAINE_HISTORY_SEED=\(seed) MORAINE_HISTORY_SEEDS=1 swift test --filter CrashHistoryTests
      """
    do { try await history.run() } catch {
      Issue.record("\(error); again: \(replay)")
      return
    }
    // Lower figures mean that the test no longer reaches crashes, losses or compactions.
    let tally = history.tally
    #expect(tally.disks > 50 && tally.segments > 1, "\(tally); again: \(replay)")
    #expect(
      tally.failed > 0 && tally.lost > 0 && tally.compactions > 0, "\(tally); again: \(replay)")
  }
}
