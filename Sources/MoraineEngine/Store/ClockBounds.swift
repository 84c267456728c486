/// The times between which the right time lies, as far as one process can see.
///
/// A clock may be set at any moment, forward by mistake or back to the right time. Its steady time
/// is never set, so the difference between the two shows it. A store does not believe a new
/// difference before it has lasted an hour: until then, the right time may be the old one or the
/// new one. Each writer of a large value that is at work appends something in that hour.
struct ClockBounds {
  /// How long a new difference must last, in milliseconds.
  private static let patience: UInt64 = 3_600_000

  /// The least difference of the last hour: a lower one replaces it at once, a higher one when it
  /// has lasted.
  private struct LastingLeast {
    private(set) var value: Int64
    /// The steady time since which all differences were higher, and the least of them.
    private var higher: (since: UInt64, least: Int64)?

    init(_ value: Int64) { self.value = value }

    /// - Parameter steady: the steady time of the difference, in milliseconds.
    mutating func record(_ difference: Int64, at steady: UInt64) {
      guard difference > value else {
        (value, higher) = (difference, nil)
        return
      }
      let since = higher?.since ?? steady
      let least = min(higher?.least ?? difference, difference)
      higher = (since, least)
      guard steady > since, steady - since > ClockBounds.patience else { return }
      (value, higher) = (least, nil)
    }
  }

  /// How far the clock is ahead of its steady time, at least.
  private var ahead: LastingLeast
  /// How far the steady time is ahead of the clock, at least.
  private var late: LastingLeast

  init(_ clock: any StoreClock) {
    let (_, difference) = Self.read(clock)
    ahead = LastingLeast(difference)
    late = LastingLeast(-difference)
  }

  private static func read(_ clock: any StoreClock) -> (steady: Int64, difference: Int64) {
    let steady = Int64(clamping: clock.steadyMilliseconds)
    return (steady, Int64(clamping: clock.milliseconds) - steady)
  }

  /// Compares the clock with its steady time.
  ///
  /// - Returns: the earliest and the latest time that may be the right one, in milliseconds since
  ///   1970. Both are the clock's time when it was not set.
  mutating func now(_ clock: any StoreClock) -> (earliest: UInt64, latest: UInt64) {
    let (steady, difference) = Self.read(clock)
    ahead.record(difference, at: UInt64(steady))
    late.record(-difference, at: UInt64(steady))
    // The first sum is at most the clock's time. The second may overflow.
    let earliest = max(0, steady + ahead.value)
    let (latest, isPastTheEnd) = steady.subtractingReportingOverflow(late.value)
    return (UInt64(earliest), isPastTheEnd ? .max : UInt64(max(0, latest)))
  }
}
