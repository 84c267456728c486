import MoraineFormat
import MoraineStorage
import Synchronization

extension CommitPipeline {
  /// The thread: jobs first, then syncs, until stopped.
  func loop() {
    while true {
      let step: Step = monitor.wait { state in nextStep(&state) }
      switch step {
      case .job(let job): job()
      case .sync(let file): synchronize(file)
      case .stop: return
      }
    }
  }

  private func nextStep(_ state: inout State) -> Monitor<State>.Wait<Step> {
    if !state.jobs.isEmpty { return .done(.job(state.jobs.removeFirst())) }
    if state.isStopped {
      state.isRunning = false
      return .done(.stop)
    }
    guard let file = state.file, state.poison == nil else { return .forSignal }
    let now = Machine.monotonicNanoseconds()
    let isDue = state.deadlineNanoseconds.map { $0 <= now } ?? false
    if !state.waiters.isEmpty || isDue {
      state.deadlineNanoseconds = nil
      hasDeadline.store(false, ordering: .relaxed)
      state.syncBeganNanoseconds = now
      return .done(.sync(file))
    }
    if let deadline = state.deadlineNanoseconds { return .atMost(nanoseconds: deadline - now) }
    return .forSignal
  }

  /// The watermark is what was appended before the sync began, never what came during it.
  private func synchronize(_ file: any StorageFile) {
    let sequence = appendedSequence.load(ordering: .acquiring)
    let offset = appendedOffset.load(ordering: .relaxed)
    do throws(StorageError) {
      try file.synchronize(.data)
    } catch {
      // A failed sync is never tried again: the kernel may have dropped the pages and forgotten.
      monitor.withLock { $0.syncBeganNanoseconds = nil }
      poison(StoreError(error))
      return
    }
    durableOffset.store(offset, ordering: .relaxed)
    durableSequence.store(sequence, ordering: .releasing)
    monitor.withLock { state in
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
}
