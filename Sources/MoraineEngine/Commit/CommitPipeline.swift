import MoraineFormat
import MoraineStorage
import Synchronization

/// Makes appended bytes durable, for many at a time, on the threads of the pool.
///
/// The writer publishes how far it has appended; whoever needs durability waits here; one sync
/// serves all who waited when it began (group commit: DeWitt et al., SIGMOD 1984). Slow jobs of
/// the writer (allocation, sealing) run in order with the syncs: one step at a time, by one thread
/// at a time, which the comments call the committing thread. A deadline is the pool's timer's to
/// keep, so an idle store has no thread.
///
/// Thread safety: everything shared is in the monitor or atomic. What the writer and the committing
/// thread exchange without the lock, and why nothing is missed, says ``CommitWord``. Sequence and
/// offset are read in one step with the file they are about, and a new file begins in one step with
/// its own.
///
/// - `durableSequence` and `durableOffset` are stored under the lock alone, by the sync that covers
///   them, by a seal, or by the writer where all is durable. The sequence is released and acquired:
///   the sync ended before its store, so who sees the number may say that the bytes are durable.
///   The offset is loaded relaxed by the writer, which puts it into a mark in the log: an older
///   value makes an older mark, which is true too, and a newer one was stored when the sync had
///   ended.
/// - `isPoisoned` is stored under the lock, before the poison is told to anybody. The writer may
///   load it relaxed: who was told is ordered after the store by the lock or by the resumption of
///   its continuation, and then sees it by coherence; who was not told is concurrent with the
///   failure, and what it appends is not acknowledged as durable.
/// - `nextWatcher` is a counter alone: relaxed, for nothing is read by its value.
///
/// A waiter is added under the lock, after a look at what is durable; a sync stores what is durable
/// under the lock and then takes out the waiters it serves under the lock. So either the waiter saw
/// it, or is taken out.
final class CommitPipeline: JobRunner, PoolWork {
  struct Waiter {
    let sequence: UInt64
    let continuation: UnsafeContinuation<StoreError?, Never>
  }

  struct State: Sendable {
    var jobs: [SerialQueue.Job] = []
    var waiters: [Waiter] = []
    /// Who waits for the poison, by a number of its own.
    var watchers: [UInt64: UnsafeContinuation<StoreError?, Never>] = [:]
    var file: (any StorageFile)?
    var deadlineNanoseconds: UInt64?
    /// When the timer calls, if it does; the deadline is not earlier.
    var timerNanoseconds: UInt64?
    var poison: StoreError?
    /// Whether the pool has it: then it is not submitted again.
    var isRunning = false
    var isStopped = false
    var syncCount: UInt64 = 0
    var syncBeganNanoseconds: UInt64?
  }

  enum Step {
    case job(SerialQueue.Job)
    /// The watermark was read together with the file it is about.
    case sync(any StorageFile, sequence: UInt64, offset: UInt64)
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
  /// Whether the store's names still lead to its files; nil while nothing is written.
  let presence = Mutex<StorePresence?>(nil)
  let nextWatcher = Atomic<UInt64>(0)
  /// Who is told what happens, if anybody is.
  let events: EventRelay?

  init(events: EventRelay? = nil) {
    self.events = events
  }

  /// What the writer says when no segment is open or a new one begins: all so far is durable.
  func begin(file: (any StorageFile)?, sequence: UInt64, offset: UInt64) {
    // In one step with the file: a sync of the old file must claim nothing about the new one.
    monitor.withLock { state in
      publish(sequence: sequence, offset: offset)
      durableOffset.store(offset, ordering: .relaxed)
      durableSequence.store(sequence, ordering: .releasing)
      state.file = file
      // Nothing waits for a sync any more. A deadline that stayed would keep the next one off. The
      // writer itself is here: it asks for no sync at the same time.
      state.deadlineNanoseconds = nil
      store(.max, relaxed: .pendingDelay)
    }
    resumeWaiters(error: nil)
    wake()
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
    // For a deadline or a waiter that found no file.
    wake()
  }

  /// Goes on in a new segment while the old one is still to be sealed. Nothing in the new one
  /// becomes durable before the job, which does that, has run: jobs go before syncs.
  func begin(
    file: any StorageFile, offset: UInt64, sealing job: @escaping @Sendable () -> Void
  ) {
    monitor.withLock { state in
      store(offset, releasing: .appendedOffset)
      durableOffset.store(offset, ordering: .relaxed)
      state.file = file
      state.jobs.append { [self] refusal in
        if let refusal { poison(StoreError(refusal)) } else { job() }
      }
    }
    wake()
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
  func enqueue(_ job: @escaping SerialQueue.Job) {
    monitor.withLock { $0.jobs.append(job) }
    wake()
  }

  /// Has tasks run on the thread; nil in a forked child, which has no such thread.
  var taskExecutor: (any TaskExecutor)? {
    Machine.forkGeneration == forkGeneration ? JobRunnerExecutor(self) : nil
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
      state.poison =
        cause.code == .storeReplaced
        ? cause
        : StoreError(
          .poisoned, "writing stopped for good after: \(cause); reopen the store",
          file: cause.file, offset: cause.offset, errno: cause.errno)
      // In one step: after somebody was told, no writer appends who has not looked.
      isPoisoned.store(true, ordering: .releasing)
    }
    // Where the store was replaced, its page may be another store's by now.
    if cause.code != .storeReplaced {
      sharedPage.withLock { page in
        if let page, page.isWritable { page.store(1, .poison) }
      }
    }
    let poison = poison
    if isFirst, let poison { events?.tell(.poisoned(poison)) }
    resumeWaiters(error: poison)
    resumeWatchers()
  }

  func stop() {
    // In a forked child nothing is to be stopped, and the lock may be held for ever.
    guard Machine.forkGeneration == forkGeneration else { return }
    monitor.withLock { $0.isStopped = true }
    // A store that is let go without being closed still keeps its promise to sync in time.
    wake()
    resumeWatchers()
  }
}
