import MoraineStorage

/// Work for which a thread waits that cannot suspend.
package enum BoundedWait {
  /// Runs work on threads of the pool, and blocks the calling thread until the work has ended, or
  /// until the time has passed. The work then goes on.
  ///
  /// For the end of a process: no other thread of Swift's may be blocked.
  ///
  /// - Returns: whether the work has ended.
  package static func run(
    atMost nanoseconds: UInt64, _ work: @escaping @Sendable () async -> Void
  ) -> Bool {
    let monitor = Monitor(false)
    let end = SystemClock.monotonicNanoseconds() + nanoseconds
    Task(executorPreference: PoolExecutor()) {
      await work()
      monitor.withLock { $0 = true }
      monitor.broadcast()
    }
    return monitor.wait { isDone in
      if isDone { return .done(true) }
      let now = SystemClock.monotonicNanoseconds()
      return now < end ? .atMost(nanoseconds: end - now) : .done(false)
    }
  }

  /// Calls a body when this process ends in order. See `ProcessEnd`.
  package static func atEndOfProcess(_ body: @escaping @Sendable () -> Void) {
    ProcessEnd.call(body)
  }
}
