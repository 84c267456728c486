import Synchronization

/// Work for the threads of the pool: many small steps, one at a time.
///
/// The owner submits the work once, when it goes from idle to ready, and not again before
/// ``step()`` has returned false.
package protocol PoolWork: AnyObject, Sendable {
  /// Does one step on a thread that may block for input and output.
  ///
  /// - Returns: whether steps remain. The next step comes after those of other work.
  func step() -> Bool

  /// Reports that the work cannot run. The pool calls it in place of ``step()`` when the system has
  /// refused a thread for a second. The work counts as idle again.
  func refuse(_ error: StorageError)
}

/// The threads of a process that block for input and output, so that the threads of Swift's
/// cooperative pool never block. One pool serves every store; a store occupies a thread only while
/// it has work.
///
/// The pool has five crews of threads, with limits, and one timer: at most 105 threads in all.
///
/// - `brief`: syncs, allocation, seals, manifests, openings without waiting. 32 threads. One exists
///   from ``secure()`` on and stays.
/// - `background`: work that no caller waits for, at lowered priority: compaction. 8 threads.
/// - `tasks`: the jobs of the stores' own tasks. 16 threads. When such a job leaves an actor, the
///   runtime may run a task of the program on the same thread, for as long as that task suspends
///   for nothing. No other crew can be occupied by that.
/// - `lasting`: work that may wait for another process or for a user's function, or may take
///   minutes: openings of shared stores, backups, events. 16 threads.
/// - `requests`: requests to stores of objects, which may wait for another machine. 32 threads. A
///   network that does not answer can occupy all of them, and no thread of another crew.
///
/// **No deadlock.** A job of `brief` or `background` blocks only in the kernel: it takes locks
/// that are held for a few instructions, and it never waits for another job of the pool. So each of
/// their threads becomes free again, and even one thread completes all jobs. A job of `lasting` may
/// wait for work that needs the other crews (a shared store's writer that is in this process),
/// and never takes one of their threads. It may not wait for another job of `lasting`. A job of
/// `requests` waits for the network or a network file system, and for no other job of the pool: a
/// request that is over ends the job that reads its body before it runs another one.
/// `background` and `tasks` have no guaranteed thread: where the system refuses one, `brief` does
/// the work. Only then can a task of the program occupy a thread of `brief`.
///
/// **No thread.** `secure()` starts the first thread and the timer when a store is opened, and
/// throws when that fails. A thread that another caller is starting does not count: the system may
/// refuse it. It is no refusal either: the caller waits for the answer. When no thread can be
/// started for work of `lasting` or `requests`, the pool tries again for a second and then refuses
/// the work.
///
/// Thread safety: each crew and the timer have a monitor. No lock is held while a thread is
/// started.
package final class ThreadPool: OfOneProcess {
  package enum Crew: Sendable, CaseIterable {
    case brief, background, tasks, lasting, requests

    package var limit: Int {
      switch self {
      case .brief, .requests: 32
      case .background: 8
      case .tasks, .lasting: 16
      }
    }
  }

  /// How long the pool tries to start a thread before it refuses the work.
  package static let patienceNanoseconds: UInt64 = 1_000_000_000
  private static let retryNanoseconds: UInt64 = 10_000_000
  /// The pause between two looks at a start of another caller. Most starts are shorter.
  private static let answerNanoseconds: UInt64 = 100_000
  private static let idleNanoseconds: UInt64 = 5_000_000_000

  private struct State: Sendable {
    var ready: [any PoolWork] = []
    /// The number of entries of `ready` that were taken already. They are removed in groups.
    var taken = 0
    var threadCount = 0
    /// The number of counted threads that are being started: the system may still refuse them.
    var startingCount = 0
    /// The number of threads that wait for work.
    var idleCount = 0
    /// The time at which the system first refused a thread that is still missing.
    var refusedNanoseconds: UInt64?

    var readyCount: Int { ready.count - taken }

    /// Counts a thread that is about to be started.
    mutating func countStart() {
      threadCount += 1
      startingCount += 1
    }

    mutating func take() -> (any PoolWork)? {
      guard taken < ready.count else { return nil }
      let work = ready[taken]
      taken += 1
      if taken == ready.count || taken >= 1024 {
        ready.removeFirst(taken)
        taken = 0
      }
      return work
    }
  }

  package let timer: PoolTimer
  package let forkGeneration = CurrentProcess.forkGeneration
  private let brief = Monitor(State())
  private let background = Monitor(State())
  private let tasks = Monitor(State())
  private let lasting = Monitor(State())
  private let requests = Monitor(State())
  /// Starts a thread. A test's function may refuse.
  private let start: @Sendable (@escaping @Sendable () -> Void) throws(StorageError) -> Void

  package convenience init() {
    self.init(start: { body throws(StorageError) in try WorkerThread.start(body) })
  }

  package convenience init(
    start: @escaping @Sendable (@escaping @Sendable () -> Void) throws(StorageError) -> Void
  ) {
    self.init(timer: PoolTimer(), start: start)
  }

  init(
    timer: PoolTimer,
    start: @escaping @Sendable (@escaping @Sendable () -> Void) throws(StorageError) -> Void
  ) {
    self.timer = timer
    self.start = start
  }

  private func monitor(_ crew: Crew) -> Monitor<State> {
    switch crew {
    case .brief: brief
    case .background: background
    case .tasks: tasks
    case .lasting: lasting
    case .requests: requests
    }
  }

  /// Returns the number of threads of a crew.
  package func threadCount(_ crew: Crew) -> Int { monitor(crew).withLock { $0.threadCount } }
}

extension ThreadPool {
  private static let place = PerProcess<ThreadPool>()

  /// The pool of this process.
  package static var current: ThreadPool { place.current }

  /// Ensures that the pool has its timer and one thread. The call may block: while another caller
  /// is starting one of them, and for a second after the first refusal.
  ///
  /// - Throws: the system's refusal, after a second.
  package func secure() throws(StorageError) {
    var refused: UInt64?
    while true {
      var pause = Self.answerNanoseconds
      do throws(StorageError) {
        if try secureAtOnce() { return }
      } catch {
        if Self.isOver(&refused) { throw error }
        pause = Self.retryNanoseconds
      }
      SystemClock.sleep(nanoseconds: pause)
    }
  }

  /// Does the same as ``secure()`` without blocking the thread.
  package func secureWithoutBlocking() async throws(StorageError) {
    var refused: UInt64?
    while true {
      do throws(StorageError) {
        if try secureAtOnce() { return }
      } catch {
        if Self.isOver(&refused) || Task.isCancelled { throw error }
        // A task that is cancelled in this time leaves the loop at the next refusal.
        do { try await Task.sleep(nanoseconds: Self.retryNanoseconds) } catch {}
        continue
      }
      await Self.waitForAnswer()
    }
  }

  /// Waits a moment for the answer to another caller's start. Cancellation does not shorten the
  /// wait: the caller's loop would keep a thread busy.
  private static func waitForAnswer() async {
    await Task {
      do { try await Task.sleep(nanoseconds: Self.answerNanoseconds) } catch {}
    }.value
  }

  /// Notes a refusal of the system.
  ///
  /// - Parameter since: the time of the caller's first refusal; nil before it.
  /// - Returns: whether the system has refused for as long as the pool has patience.
  private static func isOver(_ since: inout UInt64?) -> Bool {
    let now = SystemClock.monotonicNanoseconds()
    let first = since ?? now
    since = first
    return now - first >= patienceNanoseconds
  }

  /// Starts what is missing of the first thread and the timer.
  ///
  /// - Returns: whether both exist; false while another caller is starting one of them. The system
  ///   may refuse that start, so the caller must ask again. Each start ends.
  /// - Throws: the system's refusal.
  private func secureAtOnce() throws(StorageError) -> Bool {
    let (count, starting) = brief.withLock { state in
      defer { if state.threadCount == 0 { state.countStart() } }
      return (state.threadCount, state.startingCount)
    }
    if count == 0 {
      try makeThread(.brief)
    } else if count <= starting {
      return false
    }
    return try timer.startAtOnce()
  }

  /// Starts a thread that was counted already.
  private func makeThread(_ crew: Crew) throws(StorageError) {
    let monitor = monitor(crew)
    do throws(StorageError) {
      try start { [self] in run(crew) }
    } catch {
      monitor.withLock { state in
        state.threadCount -= 1
        state.startingCount -= 1
      }
      throw error
    }
    monitor.withLock { $0.startingCount -= 1 }
  }

  private func run(_ crew: Crew) {
    if crew == .background { CPU.lowerThreadPriority() }
    let monitor = monitor(crew)
    while let work = next(crew, monitor) {
      // The work goes to the end, so that other work has its turn. No thread need be woken, because
      // this thread continues.
      if work.step() { monitor.withLock { $0.ready.append(work) } }
    }
  }

  /// Returns the next work; nil when the thread must end because there is no work.
  private func next(_ crew: Crew, _ monitor: Monitor<State>) -> (any PoolWork)? {
    var isIdle = false
    var began: UInt64 = 0
    return monitor.wait { state in
      if let work = state.take() {
        if isIdle { state.idleCount -= 1 }
        return .done(work)
      }
      let now = SystemClock.monotonicNanoseconds()
      if !isIdle {
        isIdle = true
        state.idleCount += 1
        began = now
      }
      if crew == .brief, state.threadCount == 1 { return .forSignal }
      guard now - began >= Self.idleNanoseconds else {
        return .atMost(nanoseconds: Self.idleNanoseconds - (now - began))
      }
      state.idleCount -= 1
      state.threadCount -= 1
      return .done(nil)
    }
  }
}

extension ThreadPool {
  /// Schedules the work on a thread of the crew. Never waits in a process that has secured its
  /// pool.
  package func submit(_ work: any PoolWork, to crew: Crew) {
    let monitor = monitor(crew)
    let needsThread = monitor.withLock { state in
      state.ready.append(work)
      if state.readyCount <= state.idleCount || state.threadCount >= crew.limit { return false }
      state.countStart()
      return true
    }
    guard needsThread else { return monitor.signal() }
    do throws(StorageError) { try makeThread(crew) } catch { lacksThread(crew, error) }
  }

  /// Handles ready work when the system refuses another thread.
  private func lacksThread(_ crew: Crew, _ error: StorageError) {
    // The existing threads do the work, sooner or later.
    if threadCount(crew) > 0 { return }
    switch crew {
    case .background, .tasks: handOver(crew)
    case .lasting where timer.isRunning, .requests where timer.isRunning: retryLater(crew)
    case .lasting, .requests, .brief: waitAndRefuse(crew, error)
    }
  }

  /// Moves the work of a crew to the one that always has a thread.
  private func handOver(_ crew: Crew) {
    assert(crew != .brief, "a crew hands its work over to itself")
    while let work = monitor(crew).withLock({ $0.take() }) { submit(work, to: .brief) }
  }

  private func retryLater(_ crew: Crew) {
    let now = SystemClock.monotonicNanoseconds()
    let isFirst = monitor(crew).withLock { state in
      defer { state.refusedNanoseconds = state.refusedNanoseconds ?? now }
      return state.refusedNanoseconds == nil
    }
    if isFirst { timer.schedule(at: now + Self.retryNanoseconds) { [self] in retry(crew) } }
  }

  private func retry(_ crew: Crew) {
    let monitor = monitor(crew)
    let needsThread = monitor.withLock { state in
      guard state.readyCount > 0, state.threadCount == 0 else {
        state.refusedNanoseconds = nil
        return false
      }
      state.countStart()
      return true
    }
    guard needsThread else { return }
    do throws(StorageError) {
      try makeThread(crew)
      monitor.withLock { $0.refusedNanoseconds = nil }
    } catch {
      let now = SystemClock.monotonicNanoseconds()
      let since = monitor.withLock { $0.refusedNanoseconds } ?? now
      guard now - since >= Self.patienceNanoseconds else {
        return timer.schedule(at: now + Self.retryNanoseconds) { [self] in retry(crew) }
      }
      monitor.withLock { $0.refusedNanoseconds = nil }
      refuseAll(crew, error)
    }
  }

  /// Handles the refusal in a pool that was not secured: the caller waits, for a second, and holds
  /// no lock.
  private func waitAndRefuse(_ crew: Crew, _ error: StorageError) {
    do throws(StorageError) {
      try secure()
      // The thread of `brief` exists now and finds the work.
      if crew != .brief { retryLater(crew) }
    } catch {
      refuseAll(crew, error)
    }
  }

  private func refuseAll(_ crew: Crew, _ error: StorageError) {
    let monitor = monitor(crew)
    // If a thread has started since, it does the work.
    while let work = monitor.withLock({ $0.threadCount == 0 ? $0.take() : nil }) {
      work.refuse(error)
    }
  }

  /// Waits without occupying a thread. Not cancellable.
  package func sleep(nanoseconds: UInt64) async {
    let due = SystemClock.monotonicNanoseconds() &+ nanoseconds
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      timer.schedule(at: due) { continuation.resume() }
    }
  }
}

/// A queue of jobs that run on the pool's threads: one at a time, in their order.
package final class SerialQueue: PoolWork {
  /// - Parameter refusal: why the job cannot run; nil when it runs.
  package typealias Job = @Sendable (_ refusal: StorageError?) -> Void

  private struct State: Sendable {
    var jobs: [Job] = []
    /// Whether the queue is submitted to the pool.
    var isReady = false
  }

  private let state = Mutex(State())
  private let pool: ThreadPool
  private let crew: ThreadPool.Crew

  package init(_ crew: ThreadPool.Crew, of pool: ThreadPool = .current) {
    self.pool = pool
    self.crew = crew
  }

  package func enqueue(_ job: @escaping Job) {
    let becomesReady = state.withLock { state in
      state.jobs.append(job)
      defer { state.isReady = true }
      return !state.isReady
    }
    if becomesReady { pool.submit(self, to: crew) }
  }

  package func step() -> Bool {
    let job = state.withLock { $0.jobs.removeFirst() }
    job(nil)
    return state.withLock { state in
      state.isReady = !state.jobs.isEmpty
      return state.isReady
    }
  }

  package func refuse(_ error: StorageError) {
    let jobs = state.withLock { state in
      defer { state = State() }
      return state.jobs
    }
    for job in jobs { job(error) }
  }
}
