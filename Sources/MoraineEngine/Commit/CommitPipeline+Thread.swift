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
      case .sync(let file, let sequence, let offset): synchronize(file, sequence, offset)
      case .stop: return
      }
    }
  }

  private func nextStep(_ state: inout State) -> Monitor<State>.Wait<Step> {
    if !state.jobs.isEmpty { return .done(.job(state.jobs.removeFirst())) }
    guard let file = state.file, state.poison == nil else {
      guard state.isStopped else { return .forSignal }
      state.isRunning = false
      return .done(.stop)
    }
    let now = Machine.monotonicNanoseconds()
    // A store that is let go without being closed still keeps its promise to sync in time.
    let isDue = state.deadlineNanoseconds.map { $0 <= now || state.isStopped } ?? false
    if state.isStopped, !isDue, state.waiters.isEmpty {
      state.isRunning = false
      return .done(.stop)
    }
    if !state.waiters.isEmpty || isDue {
      state.deadlineNanoseconds = nil
      pendingDelay.store(.max, ordering: .relaxed)
      state.syncBeganNanoseconds = now
      // The watermark is what was appended before the sync begins, never what comes during it.
      let sequence = appendedSequence.load(ordering: .acquiring)
      let offset = appendedOffset.load(ordering: .relaxed)
      return .done(.sync(file, sequence: sequence, offset: offset))
    }
    if let deadline = state.deadlineNanoseconds { return .atMost(nanoseconds: deadline - now) }
    return .forSignal
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
}
