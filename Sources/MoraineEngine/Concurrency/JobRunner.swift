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

/// Runs tasks on threads of the pool.
///
/// Each job of a task is work of its own, on any thread of the crew. A serial queue would not do:
/// when a job leaves an actor, the runtime may run another task that waited for the actor on the
/// same thread, and that task keeps the thread until it waits for something. A program that writes
/// in a loop would keep the queue for as long as the loop runs.
final class PoolExecutor: TaskExecutor {
  private final class Job: PoolWork {
    private let job: UnownedJob
    private let executor: PoolExecutor

    init(_ job: UnownedJob, _ executor: PoolExecutor) {
      (self.job, self.executor) = (job, executor)
    }

    func step() -> Bool {
      job.runSynchronously(on: executor.asUnownedTaskExecutor())
      return false
    }

    /// A task that is not run never ends. So where the pool has no thread, the task runs on the
    /// thread that refuses the job.
    func refuse(_ error: StorageError) { _ = step() }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    ThreadPool.current.submit(Job(UnownedJob(job), self), to: .tasks)
  }
}
