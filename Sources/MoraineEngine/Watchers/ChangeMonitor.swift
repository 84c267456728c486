import Synchronization

/// Says, without asking the store, how often a keyspace was changed.
///
/// Safety: one atomic number that only the store's actor raises, after the change is visible to
/// reads of the actor; a thread that sees the number sees the change when it asks the actor. Its
/// highest bit says that the store is closed or suspended. Counting leaves that bit as it is.
package final class ChangeMonitor: Sendable {
  private static let unusable: UInt64 = 1 << 63
  private let count: Atomic<UInt64>
  private let others: PeerVersion

  init(_ others: PeerVersion, isUsable: Bool) {
    self.others = others
    count = Atomic(isUsable ? 0 : Self.unusable)
  }

  /// False while the store is closed or suspended: nothing that was kept in memory may be given
  /// out. It costs no load of its own: no count that was seen before is then the current one.
  @inline(__always)
  package static func isUsable(_ commitCount: UInt64) -> Bool { commitCount & unusable == 0 }

  /// The actor alone calls it.
  fileprivate func setUsable(_ isUsable: Bool) {
    let number = count.load(ordering: .relaxed) & ~Self.unusable
    count.store(isUsable ? number : number | Self.unusable, ordering: .releasing)
  }

  /// Whether other processes have written what this one has not looked at yet.
  @inline(__always)
  package var hasNewsOfOthers: Bool { others.hasNews }

  /// The commits to the keyspace that this process knows of, a batch counted once.
  @inline(__always)
  package var commitCount: UInt64 { count.load(ordering: .acquiring) }

  /// The actor alone calls it.
  @inline(__always)
  func recordCommit() { count.store(count.load(ordering: .relaxed) &+ 1, ordering: .releasing) }
}

/// What a store has in common with those who watch it.
final class Observers: Sendable {
  let pins = FeedPins()
  let others = PeerVersion()
  let life = StoreLife()
  /// The last operation that the store knew of when it was last opened or read again. Later ones
  /// are known to the pipeline, or to the page that the processes of a shared store have in common.
  let openedSequence = Atomic<UInt64>(0)
  private let monitors = Mutex(Monitors())

  private struct Monitors {
    var all: [String: ChangeMonitor] = [:]
    var areUsable = true
  }

  /// The store's actor alone calls it.
  func setUsable(_ isUsable: Bool) {
    monitors.withLock { monitors in
      monitors.areUsable = isUsable
      for monitor in monitors.all.values { monitor.setUsable(isUsable) }
    }
  }

  /// The monitor of a keyspace, which need not be there yet.
  func monitor(of keyspace: String) -> ChangeMonitor {
    monitors.withLock { monitors in
      if let known = monitors.all[keyspace] { return known }
      let monitor = ChangeMonitor(others, isUsable: monitors.areUsable)
      monitors.all[keyspace] = monitor
      return monitor
    }
  }
}
