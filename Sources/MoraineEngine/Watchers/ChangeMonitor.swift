import Synchronization

/// Counter of the commits to a keyspace, which threads read without asking the store.
///
/// Safety: one atomic number that only the store's actor raises, after reads of the actor see the
/// change. A thread that sees the number sees the change when it asks the actor. The highest bit of
/// the number says that the store is closed or suspended. Counting leaves that bit as it is.
package final class ChangeMonitor: Sendable {
  private static let unusable: UInt64 = 1 << 63
  private let count: Atomic<UInt64>
  private let others: PeerVersion

  init(_ others: PeerVersion, isUsable: Bool) {
    self.others = others
    count = Atomic(isUsable ? 0 : Self.unusable)
  }

  /// False while the store is closed or suspended: no value that was kept in memory may be returned
  /// then. The check costs no load of its own: no count that was seen before is the current one.
  @inline(__always)
  package static func isUsable(_ commitCount: UInt64) -> Bool { commitCount & unusable == 0 }

  /// Only the store's actor calls this function.
  fileprivate func setUsable(_ isUsable: Bool) {
    let number = count.load(ordering: .relaxed) & ~Self.unusable
    count.store(isUsable ? number : number | Self.unusable, ordering: .releasing)
  }

  /// Whether other processes have written something that this process has not looked at yet.
  @inline(__always)
  package var hasNewsOfOthers: Bool { others.hasNews }

  /// Number of commits to the keyspace that this process knows of. A batch counts once.
  @inline(__always)
  package var commitCount: UInt64 { count.load(ordering: .acquiring) }

  /// Only the store's actor calls this function.
  @inline(__always)
  func recordCommit() { count.store(count.load(ordering: .relaxed) &+ 1, ordering: .releasing) }
}

/// State that a store shares with its observers.
final class Observers: Sendable {
  let pins = FeedPins()
  let others = PeerVersion()
  let phase = StorePhase()
  let clock: ExpiryClock
  /// The last operation that the store knew of when it was last opened or read again. The pipeline
  /// knows the later operations, or the page that the processes of a shared store have in common.
  let openedSequence = Atomic<UInt64>(0)
  private let monitors = Mutex(Monitors())

  init(clock: any StoreClock = SystemStoreClock()) {
    self.clock = ExpiryClock(clock)
  }

  private struct Monitors {
    var all: [String: ChangeMonitor] = [:]
    var areUsable = true
  }

  /// Only the store's actor calls this function.
  func setUsable(_ isUsable: Bool) {
    monitors.withLock { monitors in
      monitors.areUsable = isUsable
      for monitor in monitors.all.values { monitor.setUsable(isUsable) }
    }
  }

  /// Calls the body while the lock is held, as a thread of a parent may hold it during a fork; for
  /// tests.
  func whileLocked(_ body: () -> Void) { monitors.withLock { _ in body() } }

  /// Returns the monitor of a keyspace, which need not exist yet.
  func monitor(of keyspace: String) -> ChangeMonitor {
    monitors.withLock { monitors in
      if let known = monitors.all[keyspace] { return known }
      let monitor = ChangeMonitor(others, isUsable: monitors.areUsable)
      monitors.all[keyspace] = monitor
      return monitor
    }
  }
}

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
