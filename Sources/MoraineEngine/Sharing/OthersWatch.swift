import MoraineStorage
import Synchronization

/// A thread that looks whether other processes have written: woken by the file system's events, and
/// once a second in case one was missed; where there are no events, a hundred times a second.
///
/// Safety: it reads one atomic word of the shared page.
final class OthersWatch: Sendable {
  private static let slowMilliseconds = 1000
  private static let fastMilliseconds = 10

  private let page: SharedPage
  private let events: (any FileEvents)?
  private let isStopped = Atomic<Bool>(false)
  /// Whether the store was told and has not looked yet.
  private let isPending = Atomic<Bool>(false)

  init(_ page: SharedPage, _ events: (any FileEvents)?) {
    self.page = page
    self.events = events
  }

  /// - Parameter tell: called on the thread, again only after ``heard()``.
  func start(_ tell: @escaping @Sendable () -> Void) {
    if page.isWritable { page.add(1, to: .watchers) }
    // Before the thread runs: what is published until then is news to it.
    let first = page.load(.version)
    WorkerThread.start { [self] in
      var seen = first
      while !isStopped.load(ordering: .acquiring) {
        wait()
        let version = page.load(.version)
        guard version != seen, !isPending.exchange(true, ordering: .acquiringAndReleasing) else {
          continue
        }
        seen = version
        tell()
      }
      if page.isWritable { page.add(.max, to: .watchers) }
    }
  }

  private func wait() {
    // Nobody rings for whom nobody can see.
    guard let events, page.isWritable else {
      return Machine.sleep(nanoseconds: UInt64(Self.fastMilliseconds) * 1_000_000)
    }
    events.wait(atMostMilliseconds: Self.slowMilliseconds)
  }

  func heard() { isPending.store(false, ordering: .releasing) }

  func stop() {
    isStopped.store(true, ordering: .releasing)
    events?.interrupt()
  }
}
