import MoraineStorage
import Synchronization

/// Watcher for writes of other processes. It looks at the page after each event of the file system,
/// and once a second in case an event was missed; where there are no events, it looks a hundred
/// times a second. The events arrive on one thread of the process and the timer calls on another,
/// whatever the number of stores.
///
/// Thread safety: one thread looks at a time, under the mutex. `isPending` is atomic, and only the
/// version of the page is read. The looking thread (T) and the store (S) communicate:
///
///     T1  load the version: it is new         S1  exchange isPending for false
///     T2  exchange isPending for true:        S2  load the version, and follow it
///         true already: do not notify
///
/// The exchanges have one order. T2 first: S1 reads what T2 or a later exchange wrote, acquires T1,
/// and S2 follows that version. S1 first: T2 gets false, and T notifies the store. With a plain
/// store in S1, S2 may load first, and the store does not learn of the change before the next look,
/// a second later.
final class PeerWatcher: Sendable {
  private static let slowNanoseconds: UInt64 = 1_000_000_000
  private static let fastNanoseconds: UInt64 = 10_000_000

  private struct State: Sendable {
    /// The version of the last notification.
    var seen: UInt64 = 0
    var events: (any DirectoryWatch)?
    /// Whether the page counts this watcher.
    var isCounted = false
    var isStopped = false
  }

  private let page: SharedPage
  private let notify: @Sendable () -> Void
  private let state = Mutex(State())
  /// Whether the store was notified and has not looked yet.
  private let isPending = Atomic<UInt64>(0)
  private let forkGeneration = CurrentProcess.forkGeneration

  /// - Parameter notify: notifies the store. It is called on the threads of events and timers, and
  ///   again only after ``heard()``. It must not block.
  init(_ page: SharedPage, _ notify: @escaping @Sendable () -> Void) {
    self.page = page
    self.notify = notify
  }

  deinit { stop() }

  /// - Parameter watch: makes the file system call its argument after each write; returns nil where
  ///   the file system does not report writes.
  /// - Throws: the system's refusal of the timer's thread, or what `watch` throws.
  func start(
    _ watch: (@escaping @Sendable () -> Void) throws(StorageError) -> (any DirectoryWatch)?
  ) throws(StorageError) {
    try ThreadPool.current.timer.start()
    // Before the first look: each later publication is news.
    let first = page.isWritable ? page.beginWatching() : page.load(.version)
    state.withLock { state in
      assert(state.events == nil && !state.isCounted, "a watcher is started twice")
      state.seen = first
      state.isCounted = page.isWritable
    }
    do throws(StorageError) {
      // A process that cannot register as a watcher is not woken by writers.
      let events = page.isWritable ? try watch { [weak self] in self?.look() } : nil
      state.withLock { $0.events = events }
      lookLater(events == nil ? Self.fastNanoseconds : Self.slowNanoseconds)
    } catch {
      stop()
      throw error
    }
  }

  private func lookLater(_ pause: UInt64) {
    let due = SystemClock.monotonicNanoseconds() + pause
    ThreadPool.current.timer.schedule(at: due) { [weak self] in
      guard let self, look() else { return }
      lookLater(pause)
    }
  }

  /// - Returns: false when the watcher was stopped.
  @discardableResult
  private func look() -> Bool {
    let (isStopped, hasNews) = state.withLock { state in
      if state.isStopped { return (true, false) }
      guard let version = news(since: state.seen) else { return (false, false) }
      state.seen = version
      return (false, true)
    }
    if hasNews { notify() }
    return !isStopped
  }

  /// Stops the watcher. A forked child does nothing: the page counts the parent's watcher, and the
  /// mutex may be held for ever.
  func stop() {
    guard forkGeneration == CurrentProcess.forkGeneration else { return }
    let (events, isCounted) = state.withLock { state in
      defer { (state.events, state.isCounted, state.isStopped) = (nil, false, true) }
      return (state.events, state.isCounted)
    }
    if isCounted { page.add(.max, to: .watchers) }
    withExtendedLifetime(events) {}
  }
}

enum WatchWord { case version, isPending }

extension ExchangingMemory where Place == WatchWord {
  /// T1, T2: returns the version that the store must be notified of; nil when there is none.
  func news(since seen: UInt64) throws(Stop) -> UInt64? {
    let version = try load(acquiring: .version)
    guard version != seen, try exchange(1, in: .isPending) == 0 else { return nil }
    return version
  }

  /// S1: the store calls it before it looks for news.
  func heard() throws(Stop) { _ = try exchange(0, in: .isPending) }
}

extension PeerWatcher: ExchangingMemory {
  func load(acquiring word: WatchWord) -> UInt64 {
    switch word {
    case .version: page.load(.version)
    case .isPending: isPending.load(ordering: .acquiring)
    }
  }

  func load(relaxed word: WatchWord) -> UInt64 { load(acquiring: word) }

  func store(_ value: UInt64, releasing word: WatchWord) {
    precondition(word == .isPending, "only the writer may change the version")
    isPending.store(value, ordering: .releasing)
  }

  func store(_ value: UInt64, relaxed word: WatchWord) { store(value, releasing: word) }

  func exchange(_ value: UInt64, in word: WatchWord) -> UInt64 {
    precondition(word == .isPending, "only the writer may change the version")
    return isPending.exchange(value, ordering: .acquiringAndReleasing)
  }

  func add(_ value: UInt64, to word: WatchWord) {
    precondition(word == .isPending, "only the writer may change the version")
    isPending.wrappingAdd(value, ordering: .acquiringAndReleasing)
  }
}

/// The version of the shared page that the store has followed. It shows, without asking the store,
/// whether other processes have written.
///
/// Safety: two atomic words, one of this process and one of the shared page. Pages that were ever
/// looked at stay mapped while this object exists: a thread reads there without a lock or a count,
/// and nothing says when it has ended. The page's address is stored with release order after the
/// page was kept, so a thread that acquires the address may read there.
///
/// Each opening of the store maps the page, and a store that is suspended and resumed opens it each
/// time. Of each file one mapping is kept, and the version is read there from then on. A mapping
/// keeps its file alive, so no other file gets the device and inode numbers while it is kept: equal
/// numbers mean the same file. All shared mappings of a file show the same memory, and an atomic
/// word is one word at each of its addresses. So it makes no difference through which mapping the
/// version is read, and a kept mapping shows what is published after a resumption. Another file,
/// which the store gets when `SHARED` was deleted in between, gets another mapping.
///
/// The followed version is released after the store has followed it, so a thread that sees both
/// versions equal may read what was followed. An older version of either word means "news"; the
/// store is then asked, which does no harm. The page's version is acquired. A process that received
/// a message about a change (through a file, a socket) sees that change's version or a younger one,
/// by coherence.
final class PeerVersion: Sendable {
  private struct Kept: Sendable {
    let file: FileIdentity
    let page: SharedPage
  }

  /// Address of the page; 0 when there is none.
  private let page = Atomic<UInt>(0)
  private let followedVersion = Atomic<UInt64>(0)
  /// One page of each file.
  private let pages = Mutex<[Kept]>([])

  /// The number of pages that stay mapped; for tests.
  var keptCount: Int { pages.withLock { $0.count } }

  /// Looks at the page of a link from now on. Only the store's actor calls this function, and its
  /// initializer.
  func follow(_ link: SharedLink) {
    let found = Kept(file: link.pageIdentity, page: link.page)
    let page = pages.withLock { pages -> SharedPage in
      if let kept = pages.first(where: { $0.file == found.file }) { return kept.page }
      pages.append(found)
      return found.page
    }
    self.page.store(UInt(bitPattern: page.base), ordering: .releasing)
  }

  /// Only the store's actor calls this function.
  func followed(_ version: UInt64) { followedVersion.store(version, ordering: .releasing) }

  @inline(__always)
  var hasNews: Bool {
    guard let base = UnsafeRawPointer(bitPattern: page.load(ordering: .acquiring)) else {
      return false
    }
    return SharedPage.version(at: base) != followedVersion.load(ordering: .acquiring)
  }
}
