"""Bugs in the communication between threads and processes, and in the pool of threads."""

from planting import Mutant, engine, storage

WORDS = "Commit/CommitPipeline.swift"
COMMIT = "CommitInterleavingTests.everyOperationIsCoveredByASync"

MUTANTS = [
    Mutant("parents-tasks-count-in-a-child", "a forked child waits for no task of its parent",
           (engine("Watchers/StorePhase.swift",
                   "  private static var all: List { place.current }\n",
                   "  private static var all: List { ON ? common : place.current }\n"
                   "  private static let common = List()\n"),),
           "ForkTests.tasksOfTheParentDelayNoOpeningInAChild"),
    Mutant("store-ends-under-its-lock", "an opening beside a store that ends is no deadlock",
           (engine("Watchers/StorePhase.swift",
                   "    let (phase, store) = state.withLock { ($0.phase, $0.store) }\n",
                   "    if ON {\n"
                   "      return state.withLock { state in\n"
                   "        let store = state.store\n"
                   "        SystemClock.sleep(nanoseconds: 20_000)\n"
                   "        return state.phase == .open && store == nil\n"
                   "      }\n"
                   "    }\n"
                   "    let (phase, store) = state.withLock { ($0.phase, $0.store) }\n"),),
           "StorePhaseTests.storeThatEndsDuringALookEndsOutsideOfTheLock"),
    Mutant("childs-store-ends-in-its-parents-lock", "a forked child waits for no lock of its parent",
           (engine("Watchers/StorePhase.swift",
                   "  func end() {\n    guard isInItsProcess else",
                   "  func end() {\n    guard ON || isInItsProcess else"),),
           "ForkTests.aChildsStoreEndsWithoutTheLocksOfItsParent"),
    Mutant("child-closes-with-its-parents-locks", "a forked child waits for no lock of its parent",
           (engine("Store/Store+Close.swift",
                   "    guard pipeline.isInItsProcess else {\n      // In a forked child",
                   "    guard ON || pipeline.isInItsProcess else {\n      // In a forked child"),),
           "ForkTests.aChildClosesWithoutTheLocksOfItsParent"),
    Mutant("child-closes-after-its-parents-tasks", "a forked child waits for no task of its parent",
           (engine("Store/Store+Close.swift",
                   "    if pipeline.isInItsProcess {\n      await compaction.waitForEnd()",
                   "    if ON || pipeline.isInItsProcess {\n      await compaction.waitForEnd()"),),
           "ForkTests.aChildClosesWithoutTheGatesOfItsParent"),
    Mutant("child-writes-after-its-parents-tasks", "a forked child waits for no task of its parent",
           (engine("Store/Store+Writes.swift",
                   "if writing.roomGate.isHeld, !pipeline.isInItsProcess { throw",
                   "if !ON, writing.roomGate.isHeld, !pipeline.isInItsProcess { throw"),),
           "ForkTests.aChildClosesWithoutTheGatesOfItsParent"),
    Mutant("child-takes-its-parents-gate", "a forked child waits for no task of its parent",
           (engine("Store/Store+Close.swift", "let takesGate = pipeline.isInItsProcess",
                   "let takesGate = ON || pipeline.isInItsProcess"),),
           "ForkTests.aChildClosesWithoutTheGatesOfItsParent"),
    Mutant("child-suspends-after-its-parents-tasks", "a forked child waits for no task of its parent",
           (engine("Sharing/Store+Suspend.swift",
                   "guard pipeline.isInItsProcess else { return try await suspendInAChild() }",
                   "guard ON || pipeline.isInItsProcess else { return try await suspendInAChild() }"),),
           "ForkTests.aChildSuspendsWithoutTheGatesOfItsParent"),
    Mutant("childs-snapshot-removes-files", "a forked child leaves its parent's files alone",
           (engine("Snapshots/SnapshotState.swift",
                   "guard CurrentProcess.forkGeneration == forkGeneration else { return }",
                   "guard ON || CurrentProcess.forkGeneration == forkGeneration else { return }"),),
           "ForkTests.aChildsSnapshotRemovesNoFile"),
    Mutant("childs-readers-counted", "a forked child may release what it has",
           (engine("Snapshots/LiveViews.swift",
                   "guard CurrentProcess.forkGeneration == forkGeneration else { return }",
                   "guard ON || CurrentProcess.forkGeneration == forkGeneration else { return }"),),
           "ForkTests.aChildMayReleaseAReaderAndThenTheStore"),
    Mutant("childs-iterator-moves-a-pin", "a forked child leaves its parent's pins alone",
           (engine("Watchers/FeedPins.swift",
                   "var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }",
                   "var isInItsProcess: Bool { ON || CurrentProcess.forkGeneration == forkGeneration }"),),
           "SharedForkTests.aChildsIteratorMovesNoPin"),
    Mutant("lock-leaves-its-file-locked", "a store that was released can be opened again",
           (engine("Recovery/Opener.swift", "    file.unlock()\n    directory.unlock()\n  }\n\n  func unlock()",
                   "    if !ON { file.unlock() }\n    directory.unlock()\n  }\n\n  func unlock()"),),
           "HeldLockTests.endOfTheLockUnlocksTheFile"),
    Mutant("executor-with-one-queue", "a program's loop holds back no compaction",
           (engine("Concurrency/JobRunner.swift",
                   "    ThreadPool.current.submit(Job(UnownedJob(job), self), to: .tasks)\n  }\n",
                   "    let job = Job(UnownedJob(job), self)\n"
                   "    if ON { return serial.enqueue { _ in _ = job.step() } }\n"
                   "    ThreadPool.current.submit(job, to: .tasks)\n  }\n"
                   "  private let serial = SerialQueue(.brief)\n"),),
           "PoolExecutorTests.jobThatKeepsItsThreadDelaysNoOtherJob"),
    Mutant("close-on-the-committing-thread", "a program's loop holds back no close",
           (engine(WORDS, "isInItsProcess ? PoolExecutor() : nil",
                   "!isInItsProcess ? nil\n      : ON ? CommittingExecutor(self) as any TaskExecutor : PoolExecutor()"),
            engine("Concurrency/JobRunner.swift",
                   "/// Runs tasks on threads of the pool.\n",
                   "final class CommittingExecutor: TaskExecutor {\n"
                   "  private let runner: any JobRunner\n"
                   "  init(_ runner: any JobRunner) { self.runner = runner }\n"
                   "  func enqueue(_ job: consuming ExecutorJob) {\n"
                   "    let job = UnownedJob(job)\n"
                   "    runner.enqueue { [self] _ in\n"
                   "      job.runSynchronously(on: asUnownedTaskExecutor())\n    }\n  }\n}\n\n"
                   "/// Runs tasks on threads of the pool.\n")),
           "PoolExecutorTests.taskThatClosesAStoreKeepsNoJobOfTheStoreBack"),
    Mutant("interval-asked-without-a-fence", "P3: an interval's sync covers what was appended",
           (engine(WORDS,
                   "    try sequentiallyConsistentFence()\n    // Relaxed: the fence orders it, and",
                   "    if !ON { try sequentiallyConsistentFence() }\n"
                   "    // Relaxed: the fence orders it, and"),), COMMIT),
    Mutant("interval-sync-begun-without-a-fence", "P3: the same on the committing thread",
           (engine(WORDS,
                   "    try sequentiallyConsistentFence()\n    let sequence",
                   "    if !ON { try sequentiallyConsistentFence() }\n    let sequence"),), COMMIT),
    Mutant("offset-before-the-bytes", "P5: no mark lies after what was written",
           (engine(WORDS, "try store(offset, releasing: .appendedOffset)",
                   "if ON { try store(offset, relaxed: .appendedOffset) } else {\n"
                   "      try store(offset, releasing: .appendedOffset)\n    }"),),
           "CommitInterleavingTests.syncMarkCoversItsSequenceNumberAndOnlyWrittenBytes"),
    Mutant("deadline-kept-without-a-segment", "P3: a deadline of a sealed segment ends with it",
           (engine("Commit/CommitPipeline.swift",
                   "      state.deadlineNanoseconds = nil\n      store(.max, relaxed: .pendingDelay)",
                   "      if !ON {\n        state.deadlineNanoseconds = nil\n"
                   "        store(.max, relaxed: .pendingDelay)\n      }"),
            engine("Commit/CommitPipeline.swift",
                   "    resumeWaiters(error: nil)\n    wake()\n  }\n\n"
                   "  /// Continues in a segment that another",
                   "    resumeWaiters(error: nil)\n    if !ON { wake() }\n  }\n\n"
                   "  /// Continues in a segment that another")),
           "IntervalTests.anIntervalThatEndsBetweenTwoSegmentsKeepsNoLaterSyncOff"),
    Mutant("watcher-counts-itself-without-a-fence", "a process that watches is woken",
           (engine("Peers/SharedPage.swift",
                   "    try add(1, to: SharedPage.Word.watchers.rawValue)\n"
                   "    try sequentiallyConsistentFence()",
                   "    try add(1, to: SharedPage.Word.watchers.rawValue)\n"
                   "    if !ON { try sequentiallyConsistentFence() }"),),
           "SharedInterleavingTests.noPublicationIsMissedByANewWatcher"),
    Mutant("snapshot-without-a-fence", "P9: what is read of the page is one publication",
           (engine("Peers/SharedPage.swift", "      try acquiringFence()",
                   "      if !ON { try acquiringFence() }"),),
           "SharedInterleavingTests.pageSnapshotEqualsASinglePublication"),
    Mutant("heard-by-a-store", "a change is told of or followed",
           (engine("Peers/PeerWatcher.swift", "_ = try exchange(0, in: .isPending)",
                   "if ON { try store(0, releasing: .isPending) } else "
                   "{ _ = try exchange(0, in: .isPending) }"),),
           "SharedInterleavingTests.everyVersionIsSignalledOrFollowed"),
    Mutant("reserve-without-the-cost-of-files", "deletes work on a full disk where files are dear",
           (engine("Segments/Reserve.swift", "    let target = target + creationBytes",
                   "    let target = ON ? target : target + creationBytes"),),
           "FullDiskTests.deletesAndCompactionFreeAFullDiskOnWhichFilesAreDear"),
    Mutant("lasting-work-never-refused", "at the limit of threads there is an error, no hang",
           (storage("ThreadPool.swift", "now - since >= Self.patienceNanoseconds",
                    "!ON, now - since >= Self.patienceNanoseconds"),),
           "ThreadPoolTests.lastingWorkIsRefusedWithoutAThread"),
    Mutant("timer-running-before-its-start", "a store that is open has a timer",
           (storage("PoolTimer.swift",
                    "defer { if state.progress == .absent { state.progress = .starting } }",
                    "defer { if state.progress == .absent "
                    "{ state.progress = ON ? .running : .starting } }"),),
           "ThreadPoolTests.threadThatMayBeRefusedSecuresNoOtherCaller"),
    Mutant("first-thread-there-before-its-start", "a store that is open has a thread",
           (storage("ThreadPool.swift", "} else if count <= starting {",
                    "} else if !ON, count <= starting {"),),
           "ThreadPoolTests.threadThatMayBeRefusedSecuresNoOtherCaller"),
    Mutant("another-callers-start-is-a-refusal", "an opening fails only when the system refuses",
           (storage("ThreadPool.swift", "import Synchronization\n",
                    "import Synchronization\nimport SystemPackage\n"),
            storage("ThreadPool.swift",
                    "      return false\n    }\n    return try timer.startAtOnce()\n",
                    "      if ON { throw Self.again }\n      return false\n    }\n"
                    "    let isRunning = try timer.startAtOnce()\n"
                    "    if ON, !isRunning { throw Self.again }\n"
                    "    return isRunning\n"),
            storage("ThreadPool.swift",
                    "  private static let place = PerProcess<ThreadPool>()\n",
                    "  private static let place = PerProcess<ThreadPool>()\n"
                    "  private static let again = StorageError(\n"
                    "    \"start a thread\", file: \"\", errno: .resourceTemporarilyUnavailable)\n")),
           "ThreadPoolTests.startOfAnotherCallerIsNoRefusal"),
    Mutant("child-waits-for-its-parents-pins", "a forked child waits for no lock of its parent",
           (engine("Watchers/FeedPins.swift",
                   "guard isInItsProcess else { return FeedPin(id: 0, in: self) }",
                   "guard ON || isInItsProcess else { return FeedPin(id: 0, in: self) }"),
            engine("Watchers/FeedPins.swift", "guard isInItsProcess else { return .max }",
                   "guard ON || isInItsProcess else { return .max }")),
           "SharedForkTests.aChildWaitsForNoLockOfThePins"),
    Mutant("child-waits-for-the-memory-of-a-snapshot", "a forked child waits for no lock of its parent",
           (engine("Index/IndexMemory.swift",
                   "    guard isInItsProcess else { return }\n    let free",
                   "    guard ON || isInItsProcess else { return }\n    let free"),),
           "PageHomeTests.aChildReleasesNoMemoryOfASnapshot"),
    Mutant("child-reads-itself-a-writer", "P9: a forked child writes nothing",
           (engine("Sharing/Store+PeerWrites.swift",
                   "would no longer be refused.\n    try engine!.checkProcess()\n",
                   "would no longer be refused.\n    if !ON { try engine!.checkProcess() }\n"),
            engine("Sharing/Store+PeerWrites.swift",
                   "    try engine!.checkProcess()\n    if peers.isTakingOver {",
                   "    if !ON { try engine!.checkProcess() }\n    if peers.isTakingOver {")),
           "SharedForkTests.aChildThatReadsWhatWasCompactedMayNotWrite"),
]
