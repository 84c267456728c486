/// The states that stay in an archive when it is cleaned.
///
/// The newest state is always kept. Each duration counts from the newest checkpoint back, by the
/// times that the checkpoints have: a cleaning reads no clock. So an archive that is not written
/// loses nothing.
public struct RetentionRule: Hashable, Sendable {
  /// The time in which each moment stays, the state after each operation.
  public var moments: Duration
  /// The time in which the state of each checkpoint stays. At least ``moments``.
  public var checkpoints: Duration
  /// The number of days of which the state of one checkpoint stays, the last of the day. A day
  /// without a checkpoint does not count.
  public var days: Int

  /// - Parameters:
  ///   - moments: a day, unless given.
  ///   - checkpoints: a day, unless given.
  ///   - days: 30, unless given.
  public init(
    moments: Duration = .seconds(86_400), checkpoints: Duration = .seconds(86_400), days: Int = 30
  ) {
    precondition(moments >= .zero && checkpoints >= .zero && days >= 0, "a rule is not negative")
    (self.moments, self.checkpoints, self.days) = (moments, checkpoints, days)
  }
}

/// The decision about each checkpoint, from the newest one to the oldest.
///
/// The time between two checkpoints counts as at most a quarter of the rule's duration, and as
/// nothing when the clock of a writer was set back. The durations are longer by that quarter. So a
/// clock that jumps by any amount, in any direction, does not shorten the time that is kept, and
/// each further jump shortens it by a quarter at most.
package struct RetentionWalk {
  /// What a checkpoint is kept for.
  package enum Verdict: Hashable {
    /// Each moment from this checkpoint on is kept.
    case moments
    /// Its own state is kept.
    case state
    case nothing
  }

  /// A duration that is counted back from the newest checkpoint.
  private struct Window {
    let limit: UInt64
    let longestStep: UInt64
    var counted: UInt64 = 0

    init(_ duration: Duration) {
      let (seconds, attoseconds) = duration.components
      let milliseconds = Int64(clamping: attoseconds / 1_000_000_000_000_000)
      let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
      let whole = overflow ? UInt64(Int64.max) : UInt64(product + milliseconds)
      longestStep = whole / 4
      limit = whole + longestStep
    }

    var isOver: Bool { counted >= limit }

    mutating func add(_ milliseconds: UInt64) {
      if !isOver { counted += min(milliseconds, longestStep) }
    }
  }

  private var moments: Window
  private var checkpoints: Window
  private let days: Int
  private var daysKept: Set<UInt64> = []
  private var newer: UInt64?
  /// Whether a checkpoint was found from which on each moment is kept.
  package private(set) var hasBase = false

  package init(_ rule: RetentionRule) {
    (moments, checkpoints) = (Window(rule.moments), Window(rule.checkpoints))
    days = rule.days
  }

  /// Whether no older checkpoint is kept.
  package var isOver: Bool { hasBase && checkpoints.isOver && daysKept.count >= days }

  /// Returns the decision about the next older checkpoint.
  ///
  /// - Parameters:
  ///   - milliseconds: the time of the checkpoint.
  ///   - isRestorable: whether its contents exist.
  package mutating func verdict(_ milliseconds: UInt64, isRestorable: Bool) -> Verdict {
    if let newer {
      let step = newer > milliseconds ? newer - milliseconds : 0
      moments.add(step)
      checkpoints.add(step)
    }
    newer = milliseconds
    guard isRestorable else { return .nothing }
    let day = milliseconds / 86_400_000
    let isLastOfDay = !daysKept.contains(day) && daysKept.count < days
    if isLastOfDay { daysKept.insert(day) }
    if !hasBase {
      hasBase = moments.isOver
      return .moments
    }
    return isLastOfDay || !checkpoints.isOver ? .state : .nothing
  }
}
