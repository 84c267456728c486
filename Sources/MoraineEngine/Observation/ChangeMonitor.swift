import Synchronization

/// Says, without asking the store, how often a keyspace was changed.
///
/// Safety: one atomic number that only the store's actor raises, after the change is visible to
/// reads of the actor; whoever sees the number sees the change when asking the actor.
package final class ChangeMonitor: Sendable {
  private let count = Atomic<UInt64>(0)
  private let others: OthersSight

  init(_ others: OthersSight) { self.others = others }

  /// Whether other processes have written what this one has not looked at yet.
  @inline(__always)
  package var hasNewsOfOthers: Bool { others.hasNews }

  /// The commits to the keyspace that this process knows of, a batch counted once.
  @inline(__always)
  package var commitCount: UInt64 { count.load(ordering: .acquiring) }

  /// The actor alone calls it.
  @inline(__always)
  func note() { count.store(count.load(ordering: .relaxed) &+ 1, ordering: .releasing) }
}

/// What a store has in common with those who watch it.
final class Observers: Sendable {
  let pins = FeedPins()
  let others = OthersSight()
  private let monitors = Mutex<[String: ChangeMonitor]>([:])

  /// The monitor of a keyspace, which need not be there yet.
  func monitor(of keyspace: String) -> ChangeMonitor {
    monitors.withLock { monitors in
      if let known = monitors[keyspace] { return known }
      let monitor = ChangeMonitor(others)
      monitors[keyspace] = monitor
      return monitor
    }
  }
}
