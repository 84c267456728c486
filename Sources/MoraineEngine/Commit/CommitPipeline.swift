import MoraineFormat
import MoraineStorage
import Synchronization

/// Makes appended bytes durable, for many at a time, on a thread of its own.
///
/// The writer publishes how far it has appended; whoever needs durability waits here; one sync
/// serves all who waited when it began (group commit: DeWitt et al., SIGMOD 1984). Slow jobs of
/// the writer (allocation, sealing) run on the same thread, in order with the syncs.
///
/// Thread safety: everything shared is in the monitor or atomic. The sequence is published after
/// the offset and read before it, so the offset a sync claims covers at least its sequence. Both
/// are read in one step with the file they are about, and a new file begins in one step with its
/// own.
final class CommitPipeline: JobRunner {
  struct Waiter {
    let sequence: UInt64
    let continuation: UnsafeContinuation<StoreError?, Never>
  }

  struct State: Sendable {
    var jobs: [@Sendable () -> Void] = []
    var waiters: [Waiter] = []
    /// Who waits for the poison, by a number of its own.
    var watchers: [UInt64: UnsafeContinuation<StoreError?, Never>] = [:]
    var file: (any StorageFile)?
    var deadlineNanoseconds: UInt64?
    var poison: StoreError?
    var isRunning = false
    var isStopped = false
    var syncCount: UInt64 = 0
    var syncBeganNanoseconds: UInt64?
  }

  enum Step {
    case job(@Sendable () -> Void)
    /// The watermark was read together with the file it is about.
    case sync(any StorageFile, sequence: UInt64, offset: UInt64)
    case stop
  }

  let monitor = Monitor(State())
  private let forkGeneration = Machine.forkGeneration
  let appendedSequence = Atomic<UInt64>(0)
  let appendedOffset = Atomic<UInt64>(0)
  let durableSequence = Atomic<UInt64>(0)
  /// In the active segment.
  let durableOffset = Atomic<UInt64>(0)
  /// Within how many nanoseconds of its asking the next sync was asked for; the maximum when none
  /// is due.
  let pendingDelay = Atomic<UInt64>(.max)
  let isPoisoned = Atomic<Bool>(false)
  /// Where the other processes are told of a failed sync.
  let sharedPage = Mutex<SharedPage?>(nil)
  let nextWatcher = Atomic<UInt64>(0)
  /// Who is told what happens, if anybody is.
  let events: EventRelay?

  init(events: EventRelay? = nil) {
    self.events = events
  }

  /// The writer's word that all before this is in the kernel's hands.
  @inline(__always)
  func publish(sequence: UInt64, offset: UInt64) {
    appendedOffset.store(offset, ordering: .relaxed)
    appendedSequence.store(sequence, ordering: .releasing)
  }

  /// What the writer says when no segment is open or a new one begins: all so far is durable.
  func begin(file: (any StorageFile)?, sequence: UInt64, offset: UInt64) {
    // In one step with the file: a sync of the old file must claim nothing about the new one.
    monitor.withLock { state in
      publish(sequence: sequence, offset: offset)
      durableOffset.store(offset, ordering: .relaxed)
      durableSequence.store(sequence, ordering: .releasing)
      state.file = file
    }
    resumeWaiters(error: nil)
  }

  /// Goes on in a segment that another process has begun, or in which it has appended.
  ///
  /// - Parameter durable: up to here other segments hold what is durable already.
  func follow(
    file: any StorageFile, sequence: UInt64, offset: UInt64, durable: UInt64, marked: UInt64
  ) {
    monitor.withLock { state in
      publish(sequence: sequence, offset: offset)
      guard state.file !== file else { return }
      durableOffset.store(marked, ordering: .relaxed)
      let before = durableSequence.load(ordering: .relaxed)
      durableSequence.store(max(before, durable), ordering: .releasing)
      state.file = file
    }
    resumeWaiters(error: nil)
  }

  /// Goes on in a new segment while the old one is still to be sealed. Nothing in the new one
  /// becomes durable before the job, which does that, has run: jobs go before syncs.
  func begin(
    file: any StorageFile, offset: UInt64, sealing job: @escaping @Sendable () -> Void
  ) {
    monitor.withLock { state in
      appendedOffset.store(offset, ordering: .relaxed)
      durableOffset.store(offset, ordering: .relaxed)
      state.file = file
      state.jobs.append(job)
      startIfNeeded(&state)
    }
    monitor.signal()
  }

  /// The committing thread's word that a sealed segment, and all before it, is durable.
  func becameDurable(through sequence: UInt64) {
    monitor.withLock { _ in
      let before = durableSequence.load(ordering: .relaxed)
      durableSequence.store(max(before, sequence), ordering: .releasing)
    }
    resumeWaiters(error: nil)
  }

  /// Has the job run on the thread, after those that are there already.
  func enqueue(_ job: @escaping @Sendable () -> Void) {
    monitor.withLock { state in
      state.jobs.append(job)
      startIfNeeded(&state)
    }
    monitor.signal()
  }

  var syncCount: UInt64 { monitor.withLock { $0.syncCount } }

  var hasPoison: Bool { isPoisoned.load(ordering: .acquiring) }

  var poison: StoreError? { monitor.withLock { $0.poison } }

  /// The first failure that leaves it unknown what the disk holds. Every waiter and every later
  /// write gets it.
  func poison(_ cause: StoreError) {
    var isFirst = false
    monitor.withLock { state in
      guard state.poison == nil else { return }
      isFirst = true
      state.poison = StoreError(
        .poisoned, "writing stopped for good after: \(cause); reopen the store", file: cause.file,
        offset: cause.offset, errno: cause.errno)
      // In one step: after somebody was told, no writer appends who has not looked.
      isPoisoned.store(true, ordering: .releasing)
    }
    sharedPage.withLock { page in
      if let page, page.isWritable { page.store(1, .poison) }
    }
    let poison = poison
    if isFirst, let poison { events?.tell(.poisoned(poison)) }
    resumeWaiters(error: poison)
    resumeWatchers()
  }

  func stop() {
    // In a forked child there is no thread to stop, and its lock may be held for ever.
    guard Machine.forkGeneration == forkGeneration else { return }
    monitor.withLock { $0.isStopped = true }
    monitor.signal()
    resumeWatchers()
  }

  func startIfNeeded(_ state: inout State) {
    guard !state.isRunning else { return }
    state.isRunning = true
    WorkerThread.start { [self] in loop() }
  }
}
