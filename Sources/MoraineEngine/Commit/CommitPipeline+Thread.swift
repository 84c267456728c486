import MoraineFormat
import MoraineStorage
import Synchronization

extension CommitPipeline {
  /// Has the pool do what there is to do: jobs first, then syncs. No lock is held while it does.
  func wake() {
    let becomesReady = monitor.withLock { state in
      guard !state.isRunning, isReady(state) else { return false }
      state.isRunning = true
      return true
    }
    if becomesReady { ThreadPool.current.submit(self, to: .brief) }
  }

  /// Whether there is a job, or a sync that is to begin now.
  private func isReady(_ state: State) -> Bool {
    if !state.jobs.isEmpty { return true }
    return state.file != nil && state.poison == nil && isSyncDue(state)
  }

  private func isSyncDue(_ state: State) -> Bool {
    if !state.waiters.isEmpty { return true }
    guard let deadline = state.deadlineNanoseconds else { return false }
    return state.isStopped || deadline <= Machine.monotonicNanoseconds()
  }

  func step() -> Bool {
    guard let step = monitor.withLock({ state in nextStep(&state) }) else { return false }
    switch step {
    case .job(let job): job(nil)
    case .sync(let file, let sequence, let offset): synchronize(file, sequence, offset)
    }
    return monitor.withLock { state in
      state.isRunning = isReady(state)
      return state.isRunning
    }
  }

  /// Nil when there is nothing to do any more; it counts as idle then.
  private func nextStep(_ state: inout State) -> Step? {
    if !state.jobs.isEmpty { return .job(state.jobs.removeFirst()) }
    guard let file = state.file, state.poison == nil, isSyncDue(state) else {
      state.isRunning = false
      return nil
    }
    state.deadlineNanoseconds = nil
    state.syncBeganNanoseconds = Machine.monotonicNanoseconds()
    // The watermark is what was appended before the sync begins, never what comes during it.
    let (sequence, offset) = beginSync()
    return .sync(file, sequence: sequence, offset: offset)
  }

  /// Only in a process that could not even have one thread for its pool.
  func refuse(_ error: StorageError) {
    let (jobs, waiters) = monitor.withLock { state in
      state.isRunning = false
      defer { (state.jobs, state.waiters) = ([], []) }
      return (state.jobs, state.waiters)
    }
    for job in jobs { job(error) }
    for waiter in waiters { waiter.continuation.resume(returning: StoreError(error)) }
  }

  private func synchronize(_ file: any StorageFile, _ sequence: UInt64, _ offset: UInt64) {
    do throws(StorageError) {
      try file.synchronize(.data)
    } catch {
      // A failed sync is never tried again: the kernel may have dropped the pages and forgotten.
      monitor.withLock { $0.syncBeganNanoseconds = nil }
      poison(StoreError(error))
      return
    }
    do throws(StoreError) { try checkPresence(of: file, syncedTo: offset) } catch {
      // Nothing is acknowledged that no name leads to; the poison has resumed the waiters.
      monitor.withLock { $0.syncBeganNanoseconds = nil }
      return
    }
    monitor.withLock { state in
      if state.file === file {
        durableOffset.store(offset, ordering: .relaxed)
        durableSequence.store(sequence, ordering: .releasing)
      }
      state.syncCount += 1
      state.syncBeganNanoseconds = nil
    }
    resumeWaiters(error: nil)
  }

  /// Resumes those whose sequence is durable; with an error, all.
  func resumeWaiters(error: StoreError?) {
    let durable = durableSequence.load(ordering: .acquiring)
    let ready: [Waiter] = monitor.withLock { state in
      guard error == nil else {
        defer { state.waiters = [] }
        return state.waiters
      }
      let ready = state.waiters.filter { $0.sequence <= durable }
      if !ready.isEmpty { state.waiters.removeAll { $0.sequence <= durable } }
      return ready
    }
    for waiter in ready { waiter.continuation.resume(returning: error) }
  }

  /// Has the next sync begin at the latest after so long.
  func setDeadline(_ nanoseconds: UInt64) {
    let timerNanoseconds: UInt64? = monitor.withLock { state in
      let due = Machine.monotonicNanoseconds() &+ nanoseconds
      state.deadlineNanoseconds = min(due, state.deadlineNanoseconds ?? due)
      store(min(nanoseconds, load(relaxed: .pendingDelay)), relaxed: .pendingDelay)
      return armTimer(&state)
    }
    if let timerNanoseconds { schedule(at: timerNanoseconds) }
  }

  /// - Returns: when the timer is to call, if it is not going to call early enough.
  private func armTimer(_ state: inout State) -> UInt64? {
    guard let deadline = state.deadlineNanoseconds, deadline < state.timerNanoseconds ?? .max
    else { return nil }
    state.timerNanoseconds = deadline
    return deadline
  }

  /// A store that is let go stops its pipeline, which then syncs at once: the timer need not keep
  /// it alive.
  private func schedule(at nanoseconds: UInt64) {
    ThreadPool.current.timer.schedule(at: nanoseconds) { [weak self] in
      guard let self else { return }
      let later: UInt64? = monitor.withLock { state in
        // Another call, for an earlier deadline, may have come since.
        guard state.timerNanoseconds == nanoseconds else { return nil }
        state.timerNanoseconds = nil
        let now = Machine.monotonicNanoseconds()
        guard let deadline = state.deadlineNanoseconds, deadline > now else { return nil }
        return armTimer(&state)
      }
      if let later { schedule(at: later) }
      wake()
    }
  }
}
