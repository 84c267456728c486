import MoraineArchive
import MoraineTesting
import Testing

/// The states that a rule keeps.
@Suite struct RetentionRuleTests {
  private static let hour: UInt64 = 3_600_000
  private static let start: UInt64 = 1_700_000_000_000

  /// Returns the decisions, the oldest first, about checkpoints with these times.
  private func verdicts(
    _ times: [UInt64], _ rule: RetentionRule = RetentionRule()
  ) -> [RetentionWalk.Verdict] {
    var walk = RetentionWalk(rule)
    return Array(times.reversed().map { walk.verdict($0, isRestorable: true) }.reversed())
  }

  private func hourly(_ count: Int) -> [UInt64] {
    (0..<UInt64(count)).map { Self.start + $0 * Self.hour }
  }

  /// The base is one checkpoint older than the moments that stay, and a quarter more.
  @Test func momentsOfADayAndOneStateADayStay() {
    let times = hourly(24 * 40)
    let verdicts = verdicts(times)
    let moments = verdicts.reversed().prefix { $0 == .moments }.count
    #expect(moments == 31)
    #expect(verdicts.filter { $0 == .moments }.count == moments, "the moments have no hole")
    let states = zip(times, verdicts).filter { $0.1 == .state }.map { $0.0 / 86_400_000 }
    #expect(Set(states).count == states.count, "one state a day stays")
    let days = Set(zip(times, verdicts).filter { $0.1 != .nothing }.map { $0.0 / 86_400_000 })
    #expect(days.count == 30)
  }

  @Test func newestCheckpointStaysAlone() {
    let rule = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    let kept = verdicts(hourly(9), rule)
    #expect(kept == Array(repeating: .nothing, count: 8) + [.moments])
  }

  /// Checkpoints that cannot be restored any more do not count as states of their day.
  @Test func removedCheckpointsAreNotKept() {
    var walk = RetentionWalk(RetentionRule(moments: .zero, checkpoints: .zero, days: 3))
    #expect(walk.verdict(Self.start, isRestorable: true) == .moments)
    let day = 24 * Self.hour
    #expect(walk.verdict(Self.start - day, isRestorable: false) == .nothing)
    #expect(walk.verdict(Self.start - day - 1, isRestorable: true) == .state)
    #expect(!walk.isOver)
    #expect(walk.verdict(Self.start - 3 * day, isRestorable: true) == .state)
    #expect(walk.isOver)
    #expect(walk.verdict(Self.start - 4 * day, isRestorable: true) == .nothing)
  }

  /// The clock of the writer jumps once, by any amount, at any checkpoint: the moments of a true
  /// day stay.
  @Test(arguments: [-400, -30, -2, -1, 1, 2, 30, 400] as [Int64], [0, 1, 12, 23, 24, 30])
  func clockThatJumpsRemovesNoMomentOfTheLastDay(days: Int64, hoursAgo: Int) {
    let truth = hourly(24 * 20)
    let times = truth.enumerated().map { index, time in
      index < truth.count - hoursAgo
        ? time : UInt64(Int64(time) + days * 24 * Int64(Self.hour))
    }
    let verdicts = verdicts(times)
    let base = verdicts.firstIndex(of: .moments) ?? 0
    #expect(truth[truth.count - 1] - truth[base] >= 24 * Self.hour)
  }

  /// Nothing is written for a year, and then once more.
  @Test func idleTimeRemovesAQuarterOfTheMomentsAtMost() {
    let times = hourly(100) + [Self.start + 24 * 365 * Self.hour]
    let verdicts = verdicts(times)
    #expect(verdicts.reversed().prefix { $0 == .moments }.count >= 25)
    #expect(verdicts.contains(.state))
  }

  /// The moments have no hole, and the newest checkpoint stays, whatever the clocks say.
  @Test(arguments: 1...200 as ClosedRange<UInt64>)
  func anyTimesKeepTheNewestCheckpoint(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let times = (0..<60).map { _ in
      Bool.random(using: &random)
        ? UInt64.random(in: 0...UInt64.max, using: &random)
        : UInt64.random(in: 0...1_000_000_000, using: &random)
    }
    let rule = RetentionRule(
      moments: .seconds(Int.random(in: 0...Int.max, using: &random)), checkpoints: .seconds(5),
      days: Int.random(in: 0...9, using: &random))
    let verdicts = verdicts(times, rule)
    #expect(verdicts.last == .moments, "seed \(seed)")
    let moments = verdicts.filter { $0 == .moments }.count
    #expect(verdicts.suffix(moments).allSatisfy { $0 == .moments }, "seed \(seed)")
  }
}
