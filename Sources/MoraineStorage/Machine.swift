import CMoraineShims

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// What the engine asks of the machine beside files.
package enum Machine {
  /// A number from the kernel's generator.
  package static func randomNumber() -> UInt64 {
    SystemRandomNumberGenerator.one()
  }

  /// Milliseconds since 1970: a label, never an order.
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

  package static var processID: Int32 { getpid() }

  /// Rises in the child of every fork since ``watchForks()``.
  package static var forkGeneration: UInt64 { moraine_fork_generation() }

  package static func watchForks() { moraine_watch_forks() }
}

extension SystemRandomNumberGenerator {
  fileprivate static func one() -> UInt64 {
    var generator = SystemRandomNumberGenerator()
    return generator.next()
  }
}

/// Zeroed memory that costs nothing until it is touched.
///
/// Aligned to 64 bytes. The owner calls ``deallocate()``.
package struct ZeroedMemory: @unchecked Sendable {
  private let allocation: UnsafeMutableRawPointer
  package let base: UnsafeMutableRawPointer

  package init(byteCount: Int) {
    guard let memory = calloc(1, byteCount + 64) else {
      fatalError("out of memory: \(byteCount) bytes for the index")
    }
    allocation = memory
    base = UnsafeMutableRawPointer(bitPattern: (UInt(bitPattern: memory) + 63) & ~63)!
  }

  package func deallocate() { free(allocation) }
}
