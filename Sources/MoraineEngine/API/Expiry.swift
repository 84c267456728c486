import MoraineStorage

/// The time at which an entry ends. From that time on, no read returns the entry; later, the store
/// deletes it.
///
/// ```swift
/// try await sessions.set(bytes, forKey: token, expiring: .after(.seconds(1800)))
/// ```
public struct Expiry: Hashable, Sendable {
  private enum Time: Hashable {
    case never
    case at(UInt64)
    case after(Duration)
    case unchanged
  }

  private let time: Time

  /// The entry does not end.
  public static let never = Expiry(time: .never)

  /// The entry ends at a time.
  ///
  /// - Parameter milliseconds: milliseconds since the beginning of 1970, UTC. The entry no longer
  ///   exists in this millisecond.
  public static func at(milliseconds: UInt64) -> Expiry { Expiry(time: .at(milliseconds)) }

  /// The entry ends after a time, counted from the write.
  public static func after(_ lifetime: Duration) -> Expiry { Expiry(time: .after(lifetime)) }

  /// The entry ends when the entry with this key ends that it replaces. Where there is none, the
  /// entry does not end. An entry that ends while a batch or a transaction is made, or while the
  /// write waits in a ``Store/WriteQueue``, counts as long as the store has not deleted it
  /// (``Store/Configuration/expiryGrace``): the new entry has ended then, too.
  public static let unchanged = Expiry(time: .unchanged)

  /// The time in milliseconds since the beginning of 1970, UTC; nil for ``never``, for
  /// ``unchanged``, and for a time that is counted from a write.
  public var milliseconds: UInt64? {
    if case .at(let milliseconds) = time { return milliseconds }
    return nil
  }

  /// Returns the same time, if it is counted from a write, as a time of the clock.
  ///
  /// - Parameter now: the time of the write, in milliseconds since 1970.
  package func counted(from now: @autoclosure () -> UInt64) -> Expiry {
    guard case .after = time else { return self }
    return .at(milliseconds: recorded(now: now()))
  }

  /// Returns the time for a record; 0 for a record that does not expire.
  ///
  /// - Parameter now: the time of the write, in milliseconds since 1970.
  func recorded(now: @autoclosure () -> UInt64) -> UInt64 {
    switch time {
    case .never: return 0
    case .unchanged: preconditionFailure("an expiry of another entry was not looked up")
    // In a record, 0 stands for no expiry.
    case .at(let milliseconds): return max(1, milliseconds)
    case .after(let lifetime):
      let (sum, isTooLong) = now().addingReportingOverflow(lifetime.wholeMilliseconds)
      return isTooLong ? .max : max(1, sum)
    }
  }
}

extension Duration {
  /// The duration in milliseconds, rounded up; 0 for a negative one.
  var wholeMilliseconds: UInt64 {
    let (seconds, attoseconds) = components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    let rest = UInt64((attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    let (whole, isTooLong) = UInt64(seconds).multipliedReportingOverflow(by: 1000)
    return isTooLong ? .max : whole.addingReportingOverflow(rest).partialValue
  }
}

/// The clock by which entries expire.
///
/// The store asks the clock about entries that have an expiry, and when a batch begins.
/// `ManualClock` in `MoraineTesting` is a clock for tests.
public protocol StoreClock: Sendable {
  /// The time in milliseconds since the beginning of 1970, UTC.
  var milliseconds: UInt64 { get }

  /// The time since any fixed moment, in milliseconds. This clock is never set, so the store
  /// compares it with ``milliseconds`` to find out that the other clock was set.
  var steadyMilliseconds: UInt64 { get }

  /// Waits until ``milliseconds`` has reached a time.
  ///
  /// - Throws: `CancellationError` when the task is cancelled.
  func sleep(until milliseconds: UInt64) async throws
}

/// The clock of the system.
public struct SystemStoreClock: StoreClock {
  /// Length of the longest sleep: the system's clock may be set during a sleep.
  private static let longestSleep: UInt64 = 60_000

  /// Creates the clock.
  public init() {}

  /// The time of the system's clock.
  public var milliseconds: UInt64 { SystemClock.wallMilliseconds() }

  /// The time of the system's monotonic clock.
  public var steadyMilliseconds: UInt64 { SystemClock.steadyMilliseconds() }

  /// Waits until the system's clock has reached a time.
  public func sleep(until time: UInt64) async throws {
    while true {
      let now = milliseconds
      if now >= time { return try Task.checkCancellation() }
      try await Task.sleep(for: .milliseconds(Int64(min(time - now, Self.longestSleep))))
    }
  }
}
