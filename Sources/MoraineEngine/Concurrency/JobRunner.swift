import MoraineStorage

/// Runs jobs one after the other on threads of the pool.
protocol JobRunner: AnyObject, Sendable {
  func enqueue(_ job: @escaping SerialQueue.Job)
}

extension SerialQueue: JobRunner {}

extension JobRunner {
  /// Runs the body on a thread of the pool and waits for it.
  ///
  /// - Throws: what the body throws; `.limitExceeded` when the system has no thread for it.
  func run<Result: Sendable>(
    _ body: @escaping @Sendable () throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    let answer: Swift.Result<Result, StoreError> = await withUnsafeContinuation { continuation in
      enqueue { refusal in
        do throws(StoreError) {
          if let refusal { throw StoreError(refusal) }
          continuation.resume(returning: .success(try body()))
        } catch {
          continuation.resume(returning: .failure(error))
        }
      }
    }
    return try answer.get()
  }
}

/// Continues the task on a thread of its preferred task executor.
@concurrent @inline(never)
func moveToPreferredExecutor() async {}

/// Runs tasks on the thread of a job runner.
final class JobRunnerExecutor: TaskExecutor {
  private let runner: any JobRunner

  init(_ runner: any JobRunner) { self.runner = runner }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    // A task that is not run never ends. So where the pool has no thread, the task runs on the
    // thread that refuses the job.
    runner.enqueue { [self] _ in job.runSynchronously(on: asUnownedTaskExecutor()) }
  }
}
