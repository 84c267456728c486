import MoraineStorage

/// A thread for long work, of low priority where nobody waits for it; ends with ``stop()``.
final class BackgroundThread: JobRunner {
  private struct State {
    var jobs: [@Sendable () -> Void] = []
    var isStopped = false
  }

  private let monitor = Monitor(State())

  /// - Parameter isAwaited: whether somebody waits for the work: on a busy machine a thread of low
  ///   priority may have no turn for minutes.
  init(isAwaited: Bool = false) {
    WorkerThread.start { [monitor] in
      if !isAwaited { Machine.lowerThreadPriority() }
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
