import Synchronization

/// The time of a store: that of its clock, but never an earlier time than before. An entry that was
/// hidden because it had expired does not come back when the clock is set to an earlier time.
final class ExpiryClock: Sendable {
  let base: any StoreClock
  private let latest = Atomic<UInt64>(0)

  init(_ base: any StoreClock) {
    self.base = base
  }

  /// Returns the time, in milliseconds since 1970.
  func now() -> UInt64 {
    // Relaxed: the number alone counts, and no other memory is read because of it.
    latest.max(base.milliseconds, ordering: .relaxed).newValue
  }
}
