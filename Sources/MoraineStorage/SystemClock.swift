#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// The clocks of the system.
package enum SystemClock {
  /// Returns milliseconds since 1970: only a label, never used for order.
  package static func wallMilliseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return UInt64(max(0, time.tv_sec)) * 1000 + UInt64(time.tv_nsec) / 1_000_000
  }

  package static func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// Returns the time since a fixed moment, in milliseconds. The time goes on while the machine
  /// sleeps.
  package static func steadyMilliseconds() -> UInt64 {
    var time = timespec()
    #if os(Linux)
      clock_gettime(CLOCK_BOOTTIME, &time)
    #else
      clock_gettime(CLOCK_MONOTONIC, &time)
    #endif
    return UInt64(time.tv_sec) * 1000 + UInt64(time.tv_nsec) / 1_000_000
  }

  /// Keeps the calling thread busy, for times that are shorter than a sleep can be.
  package static func spin(nanoseconds: UInt64) {
    let end = monotonicNanoseconds() + nanoseconds
    while monotonicNanoseconds() < end {}
  }

  /// Makes the calling thread sleep. A signal may end the sleep early.
  package static func sleep(nanoseconds: UInt64) {
    guard nanoseconds > 0 else { return }
    var time = timespec()
    time.tv_sec = Int(nanoseconds / 1_000_000_000)
    time.tv_nsec = Int(nanoseconds % 1_000_000_000)
    nanosleep(&time, nil)
  }
}
