import MoraineStorage
import Synchronization

/// A thread that looks whether other processes have written: woken by the file system's events, and
/// once a second in case one was missed; where there are no events, a hundred times a second.
///
/// Thread safety: its own words are atomic, and of the page it reads the version. `isStopped` is a
/// flag that nothing is read by: releasing and acquiring, so that the thread, when it sees it,
/// comes after all that the one who stopped it did. What the thread (T) and the store (S) tell each
/// other:
///
///     T1  load the version: it is new         S1  exchange isPending for false
///     T2  exchange isPending for true:        S2  load the version, and follow it
///         true already: do not tell
///
/// The exchanges are in one order. T2 first: S1 reads what T2 or a later exchange wrote, acquires
/// T1, and S2 follows that version. S1 first: T2 gets false and tells. With a mere store in S1, S2
/// may load first, and a change is not heard of before the next look, a second later.
final class OthersWatch: Sendable {
  private static let slowMilliseconds = 1000
  private static let fastMilliseconds = 10

  private let page: SharedPage
  private let events: (any FileEvents)?
  private let isStopped = Atomic<Bool>(false)
  /// Whether the store was told and has not looked yet.
  private let isPending = Atomic<UInt64>(0)

  init(_ page: SharedPage, _ events: (any FileEvents)?) {
    self.page = page
    self.events = events
  }

  /// - Parameter tell: called on the thread, again only after ``heard()``.
  /// - Throws: the system's refusal of a thread.
  func start(_ tell: @escaping @Sendable () -> Void) throws(StorageError) {
    // Before the thread runs: what is published until then is news to it.
    let first = page.isWritable ? page.beginWatching() : page.load(.version)
    do throws(StorageError) {
      try WorkerThread.start { [self] in look(from: first, tell) }
    } catch {
      if page.isWritable { page.add(.max, to: .watchers) }
      throw error
    }
  }

  private func look(from first: UInt64, _ tell: @Sendable () -> Void) {
    var seen = first
    while !isStopped.load(ordering: .acquiring) {
      wait()
      guard let version = news(since: seen) else { continue }
      seen = version
      tell()
    }
    if page.isWritable { page.add(.max, to: .watchers) }
  }

  private func wait() {
    // Nobody rings for whom nobody can see.
    guard let events, page.isWritable else {
      return Machine.sleep(nanoseconds: UInt64(Self.fastMilliseconds) * 1_000_000)
    }
    events.wait(atMostMilliseconds: Self.slowMilliseconds)
  }

  func stop() {
    isStopped.store(true, ordering: .releasing)
    events?.interrupt()
  }
}

enum WatchWord { case version, isPending }

extension ExchangingMemory where Place == WatchWord {
  /// T1, T2: the version that the store is to be told of, if it is.
  func news(since seen: UInt64) throws(Stop) -> UInt64? {
    let version = try load(acquiring: .version)
    guard version != seen, try exchange(1, in: .isPending) == 0 else { return nil }
    return version
  }

  /// S1: called by the store before it looks for what is new.
  func heard() throws(Stop) { _ = try exchange(0, in: .isPending) }
}

extension OthersWatch: ExchangingMemory {
  func load(acquiring word: WatchWord) -> UInt64 {
    switch word {
    case .version: page.load(.version)
    case .isPending: isPending.load(ordering: .acquiring)
    }
  }

  func load(relaxed word: WatchWord) -> UInt64 { load(acquiring: word) }

  func store(_ value: UInt64, releasing word: WatchWord) {
    precondition(word == .isPending, "the version is the writer's")
    isPending.store(value, ordering: .releasing)
  }

  func store(_ value: UInt64, relaxed word: WatchWord) { store(value, releasing: word) }

  func exchange(_ value: UInt64, in word: WatchWord) -> UInt64 {
    precondition(word == .isPending, "the version is the writer's")
    return isPending.exchange(value, ordering: .acquiringAndReleasing)
  }

  func add(_ value: UInt64, to word: WatchWord) {
    precondition(word == .isPending, "the version is the writer's")
    isPending.wrappingAdd(value, ordering: .acquiringAndReleasing)
  }
}
