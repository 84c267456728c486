import Foundation
import Synchronization

/// A thread for one task. It is for engines whose calls block: as many tasks run as there are
/// executors.
///
/// Safety of `@unchecked Sendable`: `jobs` and `isStopped` are only touched with the mutex held.
final class ThreadExecutor: TaskExecutor, @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private var jobs: [UnownedJob] = []
  private var isStopped = false

  init() {
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(condition, nil)
    let thread = Thread { [self] in run() }
    thread.stackSize = 1 << 20
    thread.start()
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    locked { jobs.append(job) }
  }

  /// Ends the thread when no jobs are left.
  func stop() { locked { isStopped = true } }

  private func locked(_ body: () -> Void) {
    pthread_mutex_lock(mutex)
    body()
    pthread_cond_signal(condition)
    pthread_mutex_unlock(mutex)
  }

  private func run() {
    while let job = next() { job.runSynchronously(on: asUnownedTaskExecutor()) }
  }

  private func next() -> UnownedJob? {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while jobs.isEmpty {
      if isStopped { return nil }
      pthread_cond_wait(condition, mutex)
    }
    return jobs.removeFirst()
  }
}

/// Runs the body for every number below `count` at the same time.
///
/// - Parameter onThreads: whether each body has its own thread. Otherwise the bodies are tasks,
///   which share the cores.
func atOnce(
  _ count: Int, onThreads: Bool, _ body: @escaping @Sendable (Int) async throws -> Void
) async throws {
  let executors = onThreads ? (0..<count).map { _ in ThreadExecutor() } : []
  defer { for executor in executors { executor.stop() } }
  try await withThrowingTaskGroup(of: Void.self) { group in
    for number in 0..<count {
      if onThreads {
        group.addTask(executorPreference: executors[number]) { try await body(number) }
      } else {
        group.addTask { try await body(number) }
      }
    }
    try await group.waitForAll()
  }
}
