import Synchronization

/// Says, without asking the store, when a keyspace was last changed.
///
/// Safety: one atomic number that only the store's actor raises, after the change is visible to reads
/// of the actor; whoever sees the number sees the change when asking the actor.
package final class ChangeMonitor: Sendable {
  private let last = Atomic<UInt64>(0)

  package init() {}

  /// The sequence number of the last change; 0 for none that this process knows of.
  @inline(__always)
  package var lastChange: UInt64 { last.load(ordering: .acquiring) }

  @inline(__always)
  func note(_ sequence: UInt64) { last.store(sequence, ordering: .releasing) }
}

/// What a store has in common with those who watch it.
final class Observers: Sendable {
  let pins = FeedPins()
  private let monitors = Mutex<[String: ChangeMonitor]>([:])

  /// The monitor of a keyspace, which need not be there yet.
  func monitor(of keyspace: String) -> ChangeMonitor {
    monitors.withLock { monitors in
      if let known = monitors[keyspace] { return known }
      let monitor = ChangeMonitor()
      monitors[keyspace] = monitor
      return monitor
    }
  }
}
