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

/// Runs each job of a task on a thread of its own, so that a call of the task may block.
///
/// Tests whose tasks reach a ``Gate`` need it: the cooperative pool has one thread for each core,
/// and on a machine with two cores, two such tests would block all threads that could open a gate.
package final class ThreadExecutor: TaskExecutor {
  package init() {}

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    do {
      try WorkerThread.start { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    } catch {
      preconditionFailure("the system has no thread for a test: \(error)")
    }
  }

  /// Runs the body on threads of its own.
  package static func run<Result: Sendable>(
    _ body: @Sendable () async throws -> Result
  ) async rethrows -> Result {
    try await withTaskExecutorPreference(ThreadExecutor()) { try await body() }
  }
}
