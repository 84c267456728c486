import MoraineStorage

/// A thread of low priority for work that nobody waits for; ends with ``stop()``.
final class BackgroundThread: JobRunner {
  private struct State {
    var jobs: [@Sendable () -> Void] = []
    var isStopped = false
  }

  private let monitor = Monitor(State())

  init() {
    WorkerThread.start { [monitor] in
      Machine.lowerThreadPriority()
      while let job = Self.next(monitor) { job() }
    }
  }

  private static func next(_ monitor: Monitor<State>) -> (@Sendable () -> Void)? {
    monitor.wait { state in
      if !state.jobs.isEmpty { return .done(state.jobs.removeFirst()) }
      return state.isStopped ? .done(nil) : .forSignal
    }
  }

  func enqueue(_ job: @escaping @Sendable () -> Void) {
    monitor.withLock { $0.jobs.append(job) }
    monitor.signal()
  }

  func stop() {
    monitor.withLock { $0.isStopped = true }
    monitor.signal()
  }
}
