import CMoraineShims
import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// The events of directories and files: one kernel queue and one thread for the whole process,
/// however many directories and files are watched.
///
/// Where the kernel has no such queue, or no place in it, the thread calls the bodies of
/// directories once a second; files are not watched then.
///
/// Thread safety: the mutex protects all mutable state. It is held only briefly, and not while a
/// body is called. A forked child does not have the thread, and shares the queue with its parent:
/// the child's first watch creates a new queue.
final class DirectoryEvents: OfOneProcess {
  /// How long events of directories are collected before the bodies are called. A rename, or a file
  /// that is moved away and back, makes several events.
  private static let collectionNanoseconds: UInt64 = 100_000_000
  private static let pollNanoseconds: UInt64 = 1_000_000_000

  private static let place = PerProcess<DirectoryEvents>()

  private struct Watcher {
    /// The watch's place in the kernel's queue; nil where the kernel reports nothing, so that the
    /// body is called once a second.
    let place: Int64?
    /// Selects the names that count. Nil for a file: every event counts, and the body is called at
    /// once.
    let isOfInterest: (@Sendable (String) -> Bool)?
    let body: @Sendable () -> Void
  }

  private struct State {
    var watchers: [UInt64: Watcher] = [:]
    var nextID: UInt64 = 0
    /// The number of watchers at a place in the kernel's queue: two watchers of one directory share
    /// it.
    var counts: [Int64: Int] = [:]
    var isRunning = false
  }

  private let state = Mutex(State())
  /// The kernel's queue; negative where the kernel has none.
  private let queue = moraine_directory_events()
  let forkGeneration = CurrentProcess.forkGeneration

  init() {}

  deinit {
    // Only an object that another thread was faster to place is released.
    if queue >= 0 { close(queue) }
  }

  /// - Parameter directory: a descriptor, which need not stay open.
  static func watch(
    _ directory: CInt, _ isOfInterest: @escaping @Sendable (String) -> Bool,
    _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? {
    place.current.add(isOfInterest, body) { moraine_directory_watch($0, directory) }
  }

  /// - Parameter directory: as ``watch(_:_:_:)``.
  /// - Returns: nil where the system cannot watch the file.
  static func watchFile(
    _ name: String, in directory: CInt, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? {
    place.current.add(nil, body) { moraine_file_watch($0, directory, name) }
  }

  /// - Parameter begin: starts the kernel's watch; receives the queue.
  private func add(
    _ isOfInterest: (@Sendable (String) -> Bool)?, _ body: @escaping @Sendable () -> Void,
    _ begin: (CInt) -> Int64
  ) -> Registration? {
    state.withLock { state in
      guard isRunning(&state) else { return nil }
      let place = queue < 0 ? -1 : begin(queue)
      if place < 0, isOfInterest == nil { return nil }
      let watcher = Watcher(
        place: place < 0 ? nil : place, isOfInterest: isOfInterest, body: body)
      state.nextID += 1
      state.watchers[state.nextID] = watcher
      if let place = watcher.place { state.counts[place, default: 0] += 1 }
      return Registration(id: state.nextID, in: self)
    }
  }

  /// Starts the thread, unless it runs. Returns false where the system has no thread left: then
  /// only the checks at syncs and renames detect changes.
  private func isRunning(_ state: inout State) -> Bool {
    if state.isRunning { return true }
    do throws(StorageError) { try WorkerThread.start { [self] in run() } } catch { return false }
    state.isRunning = true
    return true
  }

  fileprivate func remove(_ id: UInt64) {
    // In a forked child the mutex may be held for ever, and the queue is the parent's.
    guard forkGeneration == CurrentProcess.forkGeneration else { return }
    state.withLock { state in
      guard let place = state.watchers.removeValue(forKey: id)?.place else { return }
      let left = (state.counts[place] ?? 1) - 1
      state.counts[place] = left == 0 ? nil : left
      if left == 0 { moraine_directory_unwatch(queue, place) }
    }
  }

  private func run() {
    let events = UnsafeMutablePointer<moraine_directory_event>.allocate(
      capacity: Int(moraine_directory_event_limit))
    var collected: [UInt64: @Sendable () -> Void] = [:]
    var (callAt, pollAt) = (UInt64.max, SystemClock.monotonicNanoseconds() + Self.pollNanoseconds)
    while true {
      let now = SystemClock.monotonicNanoseconds()
      if now >= callAt {
        for body in collected.values { body() }
        (collected, callAt) = ([:], .max)
      }
      if now >= pollAt {
        let unwatched = state.withLock { $0.watchers.values.filter { $0.place == nil } }
        for watcher in unwatched { watcher.body() }
        pollAt = now + Self.pollNanoseconds
      }
      let pause = (min(callAt, pollAt) - now + 999_999) / 1_000_000
      distribute(read(events, CInt(clamping: pause)), events, &collected)
      if !collected.isEmpty, callAt == .max { callAt = now + Self.collectionNanoseconds }
    }
  }

  private func read(
    _ events: UnsafeMutablePointer<moraine_directory_event>, _ milliseconds: CInt
  ) -> Int {
    if queue < 0 {
      SystemClock.sleep(nanoseconds: UInt64(milliseconds) * 1_000_000)
      return 0
    }
    return moraine_directory_read(queue, milliseconds, events)
  }

  /// Calls the bodies of files, and collects the bodies of directories.
  private func distribute(
    _ count: Int, _ events: UnsafeMutablePointer<moraine_directory_event>,
    _ collected: inout [UInt64: @Sendable () -> Void]
  ) {
    guard count > 0 else { return }
    var found: [Int64: [String]] = [:]
    for index in 0..<count {
      found[events[index].watch, default: []].append(Self.name(&events[index]))
    }
    let wereLost = found[-1] != nil
    var immediate: [@Sendable () -> Void] = []
    state.withLock { state in
      for (id, watcher) in state.watchers where collected[id] == nil {
        guard let place = watcher.place else { continue }
        let names = found[place] ?? []
        let concerns = names.contains { $0.isEmpty || watcher.isOfInterest?($0) ?? true }
        guard wereLost || concerns else { continue }
        if watcher.isOfInterest == nil {
          immediate.append(watcher.body)
        } else {
          collected[id] = watcher.body
        }
      }
    }
    for body in immediate { body() }
  }

  private static func name(_ event: inout moraine_directory_event) -> String {
    withUnsafeBytes(of: &event.name) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}

/// The registration of a watched directory or file. Releasing it ends the watch.
private final class Registration: DirectoryWatch {
  private let id: UInt64
  private let events: DirectoryEvents

  init(id: UInt64, in events: DirectoryEvents) {
    self.id = id
    self.events = events
  }

  deinit { events.remove(id) }
}
