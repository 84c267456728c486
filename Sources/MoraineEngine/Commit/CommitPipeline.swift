import MoraineFormat
import MoraineStorage
import Synchronization

/// Makes appended bytes durable, for many operations at a time, on the threads of the pool.
///
/// The writer publishes how far it has appended. Operations that need durability wait here. One
/// sync serves all operations that waited when it began (group commit: DeWitt et al., SIGMOD 1984).
/// Slow jobs of the writer (creation of segments, sealing, manifests) run in order with the syncs:
/// one step at a time, by one thread at a time, which the comments call the committing thread.
/// Allocations have a queue of their own. The pool's timer keeps the deadline, so an idle store has
/// no thread.
///
/// Thread safety: all shared state is in the monitor or atomic. The comment at the extension of
/// ``WordMemory`` for ``CommitWord`` says what the writer and the committing thread exchange
/// without the lock, and why nothing is missed. Under the lock, sequence and offset are read in one
/// step with the file that they are about, and a new file begins in one step with its own sequence
/// and offset.
///
/// - `durableSequence` and `durableOffset` are stored only under the lock: by the sync that covers
///   them, by a seal, or by the writer when all is durable. The sequence is released and acquired:
///   the sync ended before its store, so a thread that sees the number may report that the bytes
///   are durable. The writer loads the offset relaxed and puts it into a mark in the log. An older
///   value makes an older mark, which is true too; a newer value was stored after its sync had
///   ended.
/// - `isPoisoned` is stored under the lock, before any thread learns of the poison. The writer may
///   load it relaxed. A writer that has learned of the poison is ordered after the store by the
///   lock or by the resumption of its continuation, and then sees the store by coherence. A writer
///   that has not learned of it is concurrent with the failure, and its appends are not
///   acknowledged as durable.
/// - `nextWatcher` is only a counter. It is relaxed, because no other memory is read by its value.
///
/// A waiter is added under the lock, after a look at the durable sequence. A sync stores the
/// durable sequence under the lock, and then removes the waiters that it serves under the lock. So
/// a waiter either saw the new sequence or is removed.
final class CommitPipeline: JobRunner, PoolWork {
  struct Waiter {
    let sequence: UInt64
    let continuation: UnsafeContinuation<StoreError?, Never>
  }

  struct State: Sendable {
    var jobs: [SerialQueue.Job] = []
    var waiters: [Waiter] = []
    /// Tasks that wait for the poison, each under a number of its own.
    var watchers: [UInt64: UnsafeContinuation<StoreError?, Never>] = [:]
    var file: (any StorageFile)?
    var deadlineNanoseconds: UInt64?
    /// When the timer calls, if it is armed; the deadline is not earlier.
    var timerNanoseconds: UInt64?
    var poison: StoreError?
    /// Whether the pool has the pipeline; then it is not submitted again.
    var isRunning = false
    var isStopped = false
    var syncCount: UInt64 = 0
    var syncBeganNanoseconds: UInt64?
  }

  enum Step {
    case job(SerialQueue.Job)
    /// A sync of the file. The watermark was read together with the file that it is about.
    case sync(any StorageFile, sequence: UInt64, offset: UInt64)
  }

  let monitor = Monitor(State())
  private let forkGeneration = CurrentProcess.forkGeneration
  let appendedSequence = Atomic<UInt64>(0)
  let appendedOffset = Atomic<UInt64>(0)
  let durableSequence = Atomic<UInt64>(0)
  /// End of the durable bytes in the active segment.
  let durableOffset = Atomic<UInt64>(0)
  /// The delay of the next sync: the nanoseconds after the request within which it must begin; the
  /// maximum when no sync is due.
  let pendingDelay = Atomic<UInt64>(.max)
  let isPoisoned = Atomic<Bool>(false)
  /// The page that shows a failed sync to the other processes.
  let sharedPage = Mutex<SharedPage?>(nil)
  /// The check that the store's names still lead to its files; nil while nothing is written.
  let presence = Mutex<StorePresence?>(nil)
  let nextWatcher = Atomic<UInt64>(0)
  /// Jobs that allocate space. They wait for no sync: a writer may wait for them.
  let allocations = SerialQueue(.brief)
  /// Whether the store follows an archive, so that queues take no writes, and repositories add no
  /// indexes. It is only a flag and relaxed: a queue that sees an older value is refused when its
  /// writes are applied, and a repository adds its indexes with a later operation.
  let isFollowing = Atomic<Bool>(false)
  /// How far the archive has the log.
  let replication = Replication()
  /// The relay for events; nil when there is no handler.
  let events: EventRelay?
  /// The number of times that the store has left its directory; see ``stay``.
  let stays = Atomic<UInt64>(0)
  /// Whether the store has left its directory for good.
  let hasEndedLastStay = Atomic<Bool>(false)

  init(events: EventRelay? = nil) {
    self.events = events
  }

  /// Begins a new segment; without a file, no segment is open. All operations so far are durable.
  /// Only the writer calls this function.
  func beginSegment(file: (any StorageFile)?, sequence: UInt64, offset: UInt64) {
    assert((file == nil) == (offset == 0), "only a segment has an end, after its header")
    // One lock covers the file and its offset, so that a sync of the old file claims nothing about
    // the new one.
    monitor.withLock { state in
      publish(sequence: sequence, offset: offset)
      durableOffset.store(offset, ordering: .relaxed)
      durableSequence.store(sequence, ordering: .releasing)
      state.file = file
      // No operation waits for a sync any more. A deadline that stayed would keep the next one off.
      // The writer itself runs this function: it requests no sync at the same time.
      state.deadlineNanoseconds = nil
      store(.max, relaxed: .pendingDelay)
    }
    resumeWaiters(error: nil)
    wake()
  }

  /// Continues in a segment that another process has begun, or to which it has appended.
  ///
  /// - Parameter durable: the sequence up to which operations are durable in other segments.
  func follow(
    file: any StorageFile, sequence: UInt64, offset: UInt64, durable: UInt64, marked: UInt64
  ) {
    assert(marked <= offset, "a segment is marked as durable beyond its end")
    monitor.withLock { state in
      publish(sequence: sequence, offset: offset)
      guard state.file !== file else { return }
      durableOffset.store(marked, ordering: .relaxed)
      let before = durableSequence.load(ordering: .relaxed)
      durableSequence.store(max(before, durable), ordering: .releasing)
      state.file = file
    }
    resumeWaiters(error: nil)
    // There may be a deadline or a waiter that found no file.
    wake()
  }

  /// Releases the file of the segment, when the store leaves its directory: a closed store keeps no
  /// file open. All operations are durable, or the store is poisoned.
  func leaveSegment() {
    monitor.withLock { state in
      store(.max, relaxed: .pendingDelay)
      (state.file, state.deadlineNanoseconds) = (nil, nil)
    }
  }

  /// Continues in a new segment while the old one is still to be sealed. The job seals the old one.
  /// Nothing in the new one becomes durable before the job has run, because jobs run before syncs.
  func beginSegment(
    file: any StorageFile, offset: UInt64, sealing job: @escaping @Sendable () -> Void
  ) {
    monitor.withLock { state in
      assert(state.file !== file, "a segment begins twice")
      store(offset, releasing: .appendedOffset)
      durableOffset.store(offset, ordering: .relaxed)
      state.file = file
      state.jobs.append { [self] refusal in
        if let refusal { poison(StoreError(refusal)) } else { job() }
      }
    }
    wake()
  }

  /// Records that a sealed segment, and all segments before it, are durable. The committing thread
  /// calls this function.
  func becameDurable(through sequence: UInt64) {
    monitor.withLock { state in
      assert(state.isRunning, "a segment was sealed outside of the committing thread")
      let before = durableSequence.load(ordering: .relaxed)
      durableSequence.store(max(before, sequence), ordering: .releasing)
    }
    resumeWaiters(error: nil)
  }

  /// Adds a job, which runs on the committing thread after the jobs that were added before.
  func enqueue(_ job: @escaping SerialQueue.Job) {
    monitor.withLock { $0.jobs.append(job) }
    wake()
  }

  /// Executor that runs tasks on threads of the pool; nil in a forked child, which has no pool.
  var taskExecutor: (any TaskExecutor)? { isInItsProcess ? PoolExecutor() : nil }

  /// Whether this process has created the pipeline, and is no forked child.
  var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  var syncCount: UInt64 { monitor.withLock { $0.syncCount } }

  var hasPoison: Bool { isPoisoned.load(ordering: .acquiring) }

  var poison: StoreError? { monitor.withLock { $0.poison } }

  /// Stops all writing, after a failure that leaves the contents of the disk unknown. Every waiter
  /// and every later write gets the error of the first failure.
  func poison(_ cause: StoreError) {
    var isFirst = false
    monitor.withLock { state in
      guard state.poison == nil else { return }
      isFirst = true
      state.poison =
        cause.code == .storeReplaced || cause.code == .fenced
        ? cause
        : StoreError(
          .poisoned, "writing stopped permanently after: \(cause); reopen the store",
          file: cause.file, offset: cause.offset, errno: cause.errno)
      // In one step: once a thread has learned of the poison, every later append sees `isPoisoned`.
      isPoisoned.store(true, ordering: .releasing)
    }
    // Where the store was replaced, its page may be another store's by now.
    if cause.code != .storeReplaced {
      sharedPage.withLock { page in
        if let page, page.isWritable { page.store(1, .poison) }
      }
    }
    let poison = poison
    assert(poison != nil, "the poison was lost")
    if isFirst, let poison { events?.send(.poisoned(poison)) }
    resumeWaiters(error: poison)
    if let poison { replication.refuse(poison) }
    resumeWatchers()
  }

  /// Checks, before a sync is acknowledged, that no sync of another process has failed. Bytes that
  /// come before the synced ones may be lost then, and the kernel reports that once: a file that is
  /// opened after the report syncs without an error.
  ///
  /// - Throws: the poison.
  func checkPeers(syncedWith file: any StorageFile) throws(StoreError) {
    guard let page = sharedPage.withLock({ $0 }), page.load(.poison) != 0 else { return }
    poison(.failedSyncOfAnotherProcess(file: file.name))
    if let refusal = self.poison { throw refusal }
  }

  func stop() {
    // In a forked child there is nothing to stop, and the lock may be held for ever.
    guard isInItsProcess else { return }
    // A store that is released without being closed leaves its directory here.
    endStay(isLast: true)
    monitor.withLock { $0.isStopped = true }
    // A store that is released without being closed still syncs in time.
    wake()
    replication.refuse(StoreError(.closed, "the store was closed"))
    resumeWatchers()
  }
}

extension CommitPipeline {
  /// Submits the pipeline to the pool if a step is due: jobs first, then syncs. No lock is held
  /// while a step runs.
  func wake() {
    let becomesReady = monitor.withLock { state in
      assert(
        (state.deadlineNanoseconds == nil) == (load(relaxed: .pendingDelay) == .max),
        "the deadline and the delay contradict each other")
      assert(
        state.timerNanoseconds ?? 0 <= state.deadlineNanoseconds ?? .max,
        "the timer calls after the deadline")
      guard !state.isRunning, isReady(state) else { return false }
      state.isRunning = true
      return true
    }
    if becomesReady { ThreadPool.current.submit(self, to: .brief) }
  }

  /// Whether there is a job, or a sync that must begin now.
  private func isReady(_ state: State) -> Bool {
    if !state.jobs.isEmpty { return true }
    return state.file != nil && state.poison == nil && isSyncDue(state)
  }

  private func isSyncDue(_ state: State) -> Bool {
    if !state.waiters.isEmpty { return true }
    guard let deadline = state.deadlineNanoseconds else { return false }
    return state.isStopped || deadline <= SystemClock.monotonicNanoseconds()
  }

  func step() -> Bool {
    guard let step = monitor.withLock({ state in nextStep(&state) }) else { return false }
    switch step {
    case .job(let job): job(nil)
    case .sync(let file, let sequence, let offset): synchronize(file, sequence, offset)
    }
    return monitor.withLock { state in
      assert(state.isRunning, "the pipeline became idle during a step")
      state.isRunning = isReady(state)
      return state.isRunning
    }
  }

  /// Returns the next step; nil when there is none. The pipeline then counts as idle.
  private func nextStep(_ state: inout State) -> Step? {
    assert(state.isRunning, "an idle pipeline does a step")
    assert(
      isPoisoned.load(ordering: .relaxed) == (state.poison != nil),
      "the flag of the poison is wrong")
    assert(state.syncBeganNanoseconds == nil, "a step begins while a sync runs")
    if !state.jobs.isEmpty { return .job(state.jobs.removeFirst()) }
    guard let file = state.file, state.poison == nil, isSyncDue(state) else {
      state.isRunning = false
      return nil
    }
    state.deadlineNanoseconds = nil
    state.syncBeganNanoseconds = SystemClock.monotonicNanoseconds()
    // The watermark is what was appended before the sync begins, never what is appended during it.
    let (sequence, offset) = beginSync()
    return .sync(file, sequence: sequence, offset: offset)
  }

  /// The pool calls this function only in a process that cannot have even one thread for it.
  func refuse(_ error: StorageError) {
    let (jobs, waiters) = monitor.withLock { state in
      assert(state.isRunning, "the pool refuses a pipeline that it does not have")
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
      // A failed sync is never tried again: the kernel may have dropped the pages and forgotten the
      // failure.
      monitor.withLock { $0.syncBeganNanoseconds = nil }
      poison(StoreError(error))
      return
    }
    do throws(StoreError) {
      try checkPeers(syncedWith: file)
      try checkPresence(of: file, syncedTo: offset)
    } catch {
      // Bytes that no name leads to, or that come after lost ones, are not acknowledged. The poison
      // has resumed the waiters.
      monitor.withLock { $0.syncBeganNanoseconds = nil }
      return
    }
    monitor.withLock { state in
      if state.file === file {
        let before = durableOffset.load(ordering: .relaxed)
        assert(before <= offset, "a sync covers less than the sync before it")
        durableOffset.store(offset, ordering: .relaxed)
        durableSequence.store(sequence, ordering: .releasing)
      }
      state.syncCount += 1
      state.syncBeganNanoseconds = nil
    }
    resumeWaiters(error: nil)
  }

  /// Resumes the waiters whose sequence is durable; with an error, all waiters.
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

  /// Makes the next sync begin at most this time from now.
  func setDeadline(_ nanoseconds: UInt64) {
    let timerNanoseconds: UInt64? = monitor.withLock { state in
      let due = SystemClock.monotonicNanoseconds() &+ nanoseconds
      state.deadlineNanoseconds = min(due, state.deadlineNanoseconds ?? due)
      store(min(nanoseconds, load(relaxed: .pendingDelay)), relaxed: .pendingDelay)
      return armTimer(&state)
    }
    if let timerNanoseconds { schedule(at: timerNanoseconds) }
  }

  /// - Returns: when the timer must call; nil when it will call early enough.
  private func armTimer(_ state: inout State) -> UInt64? {
    guard let deadline = state.deadlineNanoseconds, deadline < state.timerNanoseconds ?? .max
    else { return nil }
    state.timerNanoseconds = deadline
    return deadline
  }

  /// Schedules a call of the timer. The timer need not keep the pipeline alive: a store that is
  /// released stops its pipeline, which then syncs at once.
  private func schedule(at nanoseconds: UInt64) {
    ThreadPool.current.timer.schedule(at: nanoseconds) { [weak self] in
      guard let self else { return }
      let later: UInt64? = monitor.withLock { state in
        // Another call, for an earlier deadline, may have been scheduled since.
        guard state.timerNanoseconds == nanoseconds else { return nil }
        state.timerNanoseconds = nil
        let now = SystemClock.monotonicNanoseconds()
        guard let deadline = state.deadlineNanoseconds, deadline > now else { return nil }
        return armTimer(&state)
      }
      if let later { schedule(at: later) }
      wake()
    }
  }
}

extension CommitPipeline {
  /// Waits until the sequence is durable. Throws the error of the sync that should have made it
  /// durable.
  func waitUntilDurable(_ sequence: UInt64) async throws(StoreError) {
    if durableSequence.load(ordering: .acquiring) >= sequence { return }
    let error = await withUnsafeContinuation { continuation in
      let refusal: StoreError?? = monitor.withLock { state in
        if let poison = state.poison { return .some(poison) }
        if durableSequence.load(ordering: .acquiring) >= sequence { return .some(nil) }
        if state.isStopped { return .some(StoreError(.closed, "the store was closed")) }
        state.waiters.append(Waiter(sequence: sequence, continuation: continuation))
        return nil
      }
      if let refusal { continuation.resume(returning: refusal) } else { wake() }
    }
    if let error { throw error }
  }

  /// Waits until all operations that were appended before the call are durable.
  ///
  /// It does not wait for the last sequence number: a failed operation may have used up that
  /// number, which then never becomes durable.
  func waitUntilAllDurable() async throws(StoreError) {
    try await waitUntilDurable(lastAppended)
  }

  /// The last operation that was appended before the call.
  var lastAppended: UInt64 { appendedSequence.load(ordering: .acquiring) }

  /// Requests a sync that begins within the duration; returns at once.
  @inline(__always)
  func syncWithin(_ duration: Duration) {
    let delay = Self.nanoseconds(duration)
    if !hasSync(withinNanoseconds: delay) { setDeadline(delay) }
  }

  private static func nanoseconds(_ duration: Duration) -> UInt64 {
    let (seconds, attoseconds) = duration.components
    let wait = UInt64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000)
    return wait.overflow
      ? UInt64.max / 4
      : min(
        UInt64.max / 4, wait.partialValue &+ UInt64(clamping: attoseconds) / 1_000_000_000)
  }
}

extension CommitPipeline {
  /// Waits until writing ends for good.
  ///
  /// - Returns: the poison; nil when the pipeline was stopped before, or the task was cancelled.
  func waitUntilPoisoned() async -> StoreError? {
    let number = nextWatcher.add(1, ordering: .relaxed).newValue
    return await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        let isWaiting = monitor.withLock { state in
          // A cancellation is recorded before `onCancel` looks for the continuation under this
          // lock.
          if state.poison != nil || state.isStopped || Task.isCancelled { return false }
          assert(state.watchers[number] == nil, "two tasks wait with the same number")
          state.watchers[number] = continuation
          return true
        }
        if !isWaiting { continuation.resume(returning: poison) }
      }
    } onCancel: {
      let continuation = monitor.withLock { $0.watchers.removeValue(forKey: number) }
      continuation?.resume(returning: nil)
    }
  }

  /// Resumes the tasks that wait for the poison: after the poisoning, or when no poison can come
  /// any more.
  func resumeWatchers() {
    let (watchers, poison) = monitor.withLock { state in
      defer { state.watchers = [:] }
      return (state.watchers, state.poison)
    }
    for watcher in watchers.values { watcher.resume(returning: poison) }
  }
}

/// Words that the writer and the committing thread exchange without a lock.
enum CommitWord {
  /// The last operation whose bytes are in the kernel.
  case appendedSequence
  /// The end of the log in the active segment.
  case appendedOffset
  /// The delay of the next sync: the nanoseconds after the request within which it must begin; the
  /// maximum when no sync is due.
  case pendingDelay
}

/// The writer (W) appends and then requests a sync in time; the committing thread (C) begins a
/// sync. They must not miss each other: an operation that the sync does not cover needs another
/// sync.
///
///     W1  store appendedSequence = n              C1  store pendingDelay = none
///     W2  fence                                   C2  fence
///     W3  load pendingDelay                       C3  load appendedSequence
///         none, or too late: set a deadline           sync through that
///
/// **Why nothing is missed.** The two fences are sequentially consistent, so one is first.
///
/// W2 before C2: C3 comes after C2 and W1 before W2, so C3 reads n or more, and the sync covers n.
///
/// C2 before W2: W3 comes after W2 and C1 before C2, so W3 reads the value that C1 stored or a
/// younger one. "None": W sets a deadline. A younger value is a delay that a later request stored,
/// together with its deadline and under the lock; the sync that removes that deadline stores "none"
/// in a C1' of its own, which is younger still. W3 did not read that "none", so C2' is not before
/// W2, and by the first case C3' reads n or more.
///
/// In each case a sync that begins no later than the delay after W3 covers n. Without a fence on
/// either side both loads may read the old value, even on x86: each processor's store waits in its
/// buffer while its load is executed (Dekker's algorithm fails in this way).
///
/// **Why the offset is right.** A sync claims the offset that C4 loads, after C3. It must not claim
/// more than was written: the writer's bytes are ordered before its releasing store of the offset,
/// and C4 acquires. It must not claim less than the sequence: the offset is stored before the
/// sequence is released, and loaded after the sequence was acquired.
extension WordMemory where Place == CommitWord {
  /// W1: publishes that all bytes up to here are in the kernel.
  @inline(__always)
  func publish(sequence: UInt64, offset: UInt64) throws(Stop) {
    try store(offset, releasing: .appendedOffset)
    try store(sequence, releasing: .appendedSequence)
  }

  /// W2, W3: whether a sync that covers the published operations is due and begins in time.
  @inline(__always)
  func hasSync(withinNanoseconds delay: UInt64) throws(Stop) -> Bool {
    try sequentiallyConsistentFence()
    // Relaxed: the fence orders it, and no other memory is read by its value.
    return try load(relaxed: .pendingDelay) <= delay
  }

  /// C1 to C4: returns what the sync that begins now covers.
  @inline(__always)
  func beginSync() throws(Stop) -> (sequence: UInt64, offset: UInt64) {
    // Relaxed: the fence orders it; stores of this word are ordered by the pipeline's lock.
    try store(.max, relaxed: .pendingDelay)
    try sequentiallyConsistentFence()
    let sequence = try load(acquiring: .appendedSequence)
    return (sequence, try load(acquiring: .appendedOffset))
  }
}

extension CommitPipeline: WordMemory {
  @inline(__always)
  func load(relaxed word: CommitWord) -> UInt64 {
    switch word {
    case .appendedSequence: appendedSequence.load(ordering: .relaxed)
    case .appendedOffset: appendedOffset.load(ordering: .relaxed)
    case .pendingDelay: pendingDelay.load(ordering: .relaxed)
    }
  }

  @inline(__always)
  func load(acquiring word: CommitWord) -> UInt64 {
    switch word {
    case .appendedSequence: appendedSequence.load(ordering: .acquiring)
    case .appendedOffset: appendedOffset.load(ordering: .acquiring)
    case .pendingDelay: pendingDelay.load(ordering: .acquiring)
    }
  }

  @inline(__always)
  func store(_ value: UInt64, relaxed word: CommitWord) {
    switch word {
    case .appendedSequence: appendedSequence.store(value, ordering: .relaxed)
    case .appendedOffset: appendedOffset.store(value, ordering: .relaxed)
    case .pendingDelay: pendingDelay.store(value, ordering: .relaxed)
    }
  }

  @inline(__always)
  func store(_ value: UInt64, releasing word: CommitWord) {
    switch word {
    case .appendedSequence: appendedSequence.store(value, ordering: .releasing)
    case .appendedOffset: appendedOffset.store(value, ordering: .releasing)
    case .pendingDelay: pendingDelay.store(value, ordering: .releasing)
    }
  }
}
