import MoraineStorage

/// Runs each job of a task on a thread of its own, so that a call of the task may block.
///
/// For tests with a ``Gate``: the cooperative pool has as many threads as the machine has cores.
/// Two tests that block two of them would wait for each other on a machine with two cores.
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
