import Synchronization

/// A count that several threads take numbers from.
final class Counter: Sendable {
  private let count = Atomic(0)

  /// Returns 0, 1, 2 and so on. Relaxed: no other memory depends on the number.
  func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).oldValue }

  var value: Int { count.load(ordering: .relaxed) }
}
