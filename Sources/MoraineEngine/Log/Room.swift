import Synchronization

/// What must happen before a writer can append.
enum Room {
  case enough
  /// There is room, and it is time to begin allocating more.
  case extendAhead
  case extend
  case rotate
}

/// More of a segment being allocated on the committing thread.
final class ExtensionTicket: Sendable {
  /// Where the allocated part ends when that is done; 0 before, and when it failed.
  let allocatedEnd = Atomic<Int>(0)
}
