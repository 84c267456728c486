/// A timer that calls actions at their times, with one thread for the whole process.
///
/// An action runs on the timer's thread and must not block: it submits work to the pool or resumes
/// a continuation.
package final class PoolTimer: Sendable {
  private struct Entry {
    let dueNanoseconds: UInt64
    let action: @Sendable () -> Void
  }

  private struct State: Sendable {
    /// A binary heap: no entry is due before its parent.
    var heap: [Entry] = []
    var isRunning = false
  }

  private let monitor = Monitor(State())

  init() {}

  /// Starts the thread, unless it runs. The thread then runs until the process ends.
  package func start() throws(StorageError) {
    let isFirst = monitor.withLock { state in
      defer { state.isRunning = true }
      return !state.isRunning
    }
    guard isFirst else { return }
    do throws(StorageError) {
      try WorkerThread.start { [self] in loop() }
    } catch {
      monitor.withLock { $0.isRunning = false }
      throw error
    }
  }

  var isRunning: Bool { monitor.withLock { $0.isRunning } }

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
