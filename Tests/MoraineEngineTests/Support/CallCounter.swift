import Synchronization

/// Counts the calls of a script that meets calls of several threads.
final class CallCounter: Sendable {
  private let count = Mutex(0)

  /// Number of calls of ``next()``.
  var value: Int { count.withLock { $0 } }

  /// Returns the number of earlier calls.
  func next() -> Int {
    count.withLock { count in
      defer { count += 1 }
      return count
    }
  }
}
