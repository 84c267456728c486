import MoraineStorage

/// A gate that holds threads until it is opened, and reports when the first thread has reached it.
///
/// For tests: a call that hangs, without a clock.
package final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var arrivals = 0
    var watchers: [CheckedContinuation<Void, Never>] = []
  }

  private let monitor = Monitor(State())

  package init() {}

  /// Blocks the calling thread until the gate is open.
  ///
  /// - Precondition: the thread is not one of the cooperative pool. See ``ThreadExecutor``.
  package func pass() {
    let blocksThePool = withUnsafeCurrentTask { task in
      task.map { $0.unownedTaskExecutor == nil } ?? false
    }
    precondition(!blocksThePool, "a gate holds a thread of the cooperative pool")
    let watchers = monitor.withLock { state in
      state.arrivals += 1
      defer { state.watchers = [] }
      return state.watchers
    }
    for watcher in watchers { watcher.resume() }
    monitor.wait { state in state.isOpen ? .done(()) : .forSignal }
  }

  /// Opens the gate for all threads, now and later. At most one thread may be waiting.
  package func open() {
    monitor.withLock { $0.isOpen = true }
    monitor.signal()
  }

  /// Waits until a thread has reached the gate.
  package func arrival() async {
    await withCheckedContinuation { continuation in
      let hasArrived = monitor.withLock { state in
        if state.arrivals == 0 { state.watchers.append(continuation) }
        return state.arrivals > 0
      }
      if hasArrived { continuation.resume() }
    }
  }
}
