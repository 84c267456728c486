import CMoraineShims
import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// Tells what happens to directories: one queue of the kernel and one thread for the whole process,
/// however many directories are watched.
///
/// Where the kernel has no such queue, or no place in it, the thread asks once a second.
///
/// Thread safety: the mutex protects everything that changes; it is held for moments only, and
/// not while a body is called. A child of a process that forked has no such thread, and shares the
/// queue with its parent: the first watch of the child begins with a queue of its own. `place` is
/// released when an object is stored and acquired when it is loaded, so its properties are seen.
final class DirectoryEvents: Sendable {
  /// How long events are collected before the bodies are called: a rename, or a file that is moved
  /// away and back, makes several.
  private static let collectionNanoseconds: UInt64 = 100_000_000
  private static let pollMilliseconds: CInt = 1000

  /// Where the one of this process lies. It stays for as long as the process lives.
  private static let place = Atomic<UInt>(0)

  /// A child of a process that forked gets one of its own: the parent's mutex may be held for ever.
  private static var current: DirectoryEvents {
    let known = place.load(ordering: .acquiring)
    if let events = at(known), events.forkGeneration == Machine.forkGeneration { return events }
    let fresh = Unmanaged.passRetained(DirectoryEvents())
    let (exchanged, original) = place.compareExchange(
      expected: known, desired: UInt(bitPattern: fresh.toOpaque()),
      ordering: .acquiringAndReleasing)
    if exchanged { return fresh.takeUnretainedValue() }
    fresh.release()
    guard let events = at(original) else {
      fatalError("the queue of directory events was given back")
    }
    return events
  }

  private static func at(_ place: UInt) -> DirectoryEvents? {
    guard let pointer = UnsafeRawPointer(bitPattern: place) else { return nil }
    return Unmanaged<DirectoryEvents>.fromOpaque(pointer).takeUnretainedValue()
  }

  private struct Watcher {
    /// Nil where the kernel tells nothing, so that the body is called once a second.
    let place: Int64?
    let isOfInterest: @Sendable (String) -> Bool
    let body: @Sendable () -> Void
  }

  private struct State {
    var watchers: [UInt64: Watcher] = [:]
    var nextID: UInt64 = 0
    /// How many watchers a place in the kernel's queue has: two of one directory share it.
    var counts: [Int64: Int] = [:]
    var isRunning = false
  }

  private let state = Mutex(State())
  /// Negative where there is none.
  private let queue = moraine_directory_events()
  private let forkGeneration = Machine.forkGeneration

  deinit {
    // One that another thread was faster than.
    if queue >= 0 { close(queue) }
  }

  /// - Parameter directory: a descriptor, which need not stay open.
  static func watch(
    _ directory: CInt, _ isOfInterest: @escaping @Sendable (String) -> Bool,
    _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? {
    current.add(directory, isOfInterest, body)
  }

  private func add(
    _ directory: CInt, _ isOfInterest: @escaping @Sendable (String) -> Bool,
    _ body: @escaping @Sendable () -> Void
  ) -> Registration? {
    state.withLock { state in
      guard isRunning(&state) else { return nil }
      let place = queue < 0 ? -1 : moraine_directory_watch(queue, directory)
      let watcher = Watcher(
        place: place < 0 ? nil : place, isOfInterest: isOfInterest, body: body)
      state.nextID += 1
      state.watchers[state.nextID] = watcher
      if let place = watcher.place { state.counts[place, default: 0] += 1 }
      return Registration(id: state.nextID, in: self)
    }
  }

  /// False where the system has no thread left to give: then only the checks at syncs and renames
  /// find out.
  private func isRunning(_ state: inout State) -> Bool {
    if state.isRunning { return true }
    do throws(StorageError) { try WorkerThread.start { [self] in run() } } catch { return false }
    state.isRunning = true
    return true
  }

  fileprivate func remove(_ id: UInt64) {
    // In a child the mutex may be held for ever, and the queue is the parent's.
    guard forkGeneration == Machine.forkGeneration else { return }
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
    while true {
      var bodies: [UInt64: @Sendable () -> Void] = [:]
      collect(read(events, Self.pollMilliseconds), events, &bodies)
      if !bodies.isEmpty {
        Machine.sleep(nanoseconds: Self.collectionNanoseconds)
        collect(read(events, 0), events, &bodies)
      }
      for body in bodies.values { body() }
      bodies = state.withLock { $0.watchers.filter { $0.value.place == nil }.mapValues(\.body) }
      for body in bodies.values { body() }
    }
  }

  private func read(
    _ events: UnsafeMutablePointer<moraine_directory_event>, _ milliseconds: CInt
  ) -> Int {
    if queue < 0 {
      Machine.sleep(nanoseconds: UInt64(milliseconds) * 1_000_000)
      return 0
    }
    return moraine_directory_read(queue, milliseconds, events)
  }

  private func collect(
    _ count: Int, _ events: UnsafeMutablePointer<moraine_directory_event>,
    _ bodies: inout [UInt64: @Sendable () -> Void]
  ) {
    guard count > 0 else { return }
    let found = (0..<count).map { index in
      (place: events[index].watch, name: Self.name(&events[index]))
    }
    state.withLock { state in
      for (id, watcher) in state.watchers where bodies[id] == nil {
        guard let place = watcher.place else { continue }
        let concerns = found.contains { event in
          if event.place < 0 { return true }
          return event.place == place && (event.name.isEmpty || watcher.isOfInterest(event.name))
        }
        if concerns { bodies[id] = watcher.body }
      }
    }
  }

  private static func name(_ event: inout moraine_directory_event) -> String {
    withUnsafeBytes(of: &event.name) { bytes in
      String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
  }
}

/// One directory's place among the watched ones.
private final class Registration: DirectoryWatch {
  private let id: UInt64
  private let events: DirectoryEvents

  init(id: UInt64, in events: DirectoryEvents) {
    self.id = id
    self.events = events
  }

  deinit { events.remove(id) }
}
