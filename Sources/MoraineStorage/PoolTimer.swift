import SystemPackage

/// A timer that calls actions at their times, with one thread for the whole process.
///
/// An action runs on the timer's thread and must not block: it submits work to the pool or resumes
/// a continuation.
package final class PoolTimer: Sendable {
  private struct Entry {
    let dueNanoseconds: UInt64
    let action: @Sendable () -> Void
  }

  /// The state of the timer's thread. While it is starting, the system may still refuse it.
  private enum Progress: Sendable {
    case absent, starting, running
  }

  private struct State: Sendable {
    /// A binary heap: no entry is due before its parent.
    var heap: [Entry] = []
    var progress = Progress.absent
  }

  private let monitor = Monitor(State())
  /// Starts a thread. A test's function may refuse.
  private let startThread: @Sendable (@escaping @Sendable () -> Void) throws(StorageError) -> Void

  convenience init() {
    self.init(start: { body throws(StorageError) in try WorkerThread.start(body) })
  }

  init(
    start: @escaping @Sendable (@escaping @Sendable () -> Void) throws(StorageError) -> Void
  ) {
    startThread = start
  }

  /// Starts the thread, unless it runs. The thread then runs until the process ends.
  ///
  /// - Throws: the system's refusal; `EAGAIN` also while another caller is starting the thread,
  ///   because that start may be refused. The caller may try again.
  package func start() throws(StorageError) {
    guard try startAtOnce() else {
      throw StorageError("start a thread", file: "", errno: .resourceTemporarilyUnavailable)
    }
  }

  /// Does the same as ``start()``, and distinguishes another caller's start from a refusal.
  ///
  /// - Returns: whether the thread runs; false while another caller is starting it. The system may
  ///   refuse that start, so the caller must ask again.
  /// - Throws: the system's refusal.
  func startAtOnce() throws(StorageError) -> Bool {
    let found = monitor.withLock { state in
      defer { if state.progress == .absent { state.progress = .starting } }
      return state.progress
    }
    switch found {
    case .running: return true
    case .starting: return false
    case .absent: break
    }
    do throws(StorageError) {
      try startThread { [self] in loop() }
    } catch {
      monitor.withLock { $0.progress = .absent }
      throw error
    }
    monitor.withLock { $0.progress = .running }
    return true
  }

  var isRunning: Bool { monitor.withLock { $0.progress == .running } }

  /// Schedules the action for a time of the machine's monotonic clock. It runs at that time or soon
  /// after.
  ///
  /// - Complexity: O(log entries).
  package func schedule(at dueNanoseconds: UInt64, _ action: @escaping @Sendable () -> Void) {
    let isNext = monitor.withLock { state in
      state.heap.append(Entry(dueNanoseconds: dueNanoseconds, action: action))
      return Self.rise(&state.heap, from: state.heap.count - 1) == 0
    }
    // The thread sleeps until the time of the entry that was first before.
    if isNext { monitor.signal() }
  }

  private func loop() {
    while true {
      let action = monitor.wait { state -> Monitor<State>.Wait<@Sendable () -> Void> in
        guard let first = state.heap.first else { return .forSignal }
        let now = SystemClock.monotonicNanoseconds()
        guard first.dueNanoseconds <= now else {
          return .atMost(nanoseconds: first.dueNanoseconds - now)
        }
        return .done(Self.takeFirst(&state.heap).action)
      }
      action()
    }
  }

  /// - Returns: the entry's new place.
  private static func rise(_ heap: inout [Entry], from start: Int) -> Int {
    var place = start
    while place > 0 {
      let parent = (place - 1) / 2
      guard heap[place].dueNanoseconds < heap[parent].dueNanoseconds else { break }
      heap.swapAt(place, parent)
      place = parent
    }
    return place
  }

  private static func takeFirst(_ heap: inout [Entry]) -> Entry {
    heap.swapAt(0, heap.count - 1)
    let first = heap.removeLast()
    var place = 0
    while true {
      var least = place
      for child in [2 * place + 1, 2 * place + 2]
      where child < heap.count && heap[child].dueNanoseconds < heap[least].dueNanoseconds {
        least = child
      }
      if least == place { return first }
      heap.swapAt(place, least)
      place = least
    }
  }
}
