import MoraineFormat
package import MoraineStorage
import Synchronization
public import SystemPackage

/// A key-value store on an append-only log: the one writer of its directory.
///
/// Every operation is one hop to the actor. Reads verify a checksum. Writes append; their
/// ``Durability`` says whether they wait for the disk.
///
/// Every throwing method throws `.closed` after ``close()``, `.suspended` between ``suspend()`` and
/// ``resume()``, and, in a shared store, `.locked` when another process has been writing for a
/// minute. In a forked child, every write throws `.usedAfterFork`, and so does a read that needs
/// what another process has written since. The documentation of a method lists its other errors.
public actor Store {
  @usableFromInline nonisolated let opener: Opener

  /// State of the open store; nil while the store does not exist on disk (the first write creates
  /// it), and after the store was closed or suspended.
  #if DEBUG
    var engine: EngineState?
  #else
    private let cell: EngineCell
    var engine: EngineState? {
      @inline(__always)
      unsafeAddress { UnsafePointer(cell.place) }
      @inline(__always)
      unsafeMutableAddress { cell.place }
    }
  #endif
  let writing = WritingState()
  let compaction = CompactionState()
  var checkpoints: CheckpointState
  let peers: PeerAccess
  var readers = ReaderState()
  /// The copy of the log elsewhere that needs what compaction replaces; nil when there is none.
  /// The copier owns it: without the copier nothing is held.
  weak var shipping: RetiredSegments?
  /// The segments whose bytes a follower has received and not applied yet.
  var incoming: [IncomingSegment] = []
  /// Number of times that a follower has received bytes since it applied some.
  var receivedCount = 0
  /// What the store has seen of its clock since it was opened.
  var clockBounds: ClockBounds
  /// The first call of ``close()``.
  let closing = ClosingState()
  /// Must be the last stored property: see ``StoreEnding``.
  var lifecycle: StoreLifecycle

  /// Opens the store in a directory. Blocks the calling thread while it reads the store.
  ///
  /// When the directory holds no store, nothing is created before the first write. When another
  /// `Store` of this process has the directory and is being closed or released, opening waits for
  /// that store, for ten seconds at most.
  ///
  /// - Throws: `.locked`, `.corrupted`, `.newerFormat`, `.notAStore`, `.noSpace`; `.io`, also when
  ///   the store is opened for writing and its directory, or the directory that it is to be created
  ///   in, cannot be written; `.limitExceeded` when the system has no thread, descriptor or memory
  ///   for the store, after a second at most.
  /// - Complexity: O(segments + bytes of the log after the last index checkpoint).
  public init(
    at directory: FilePath, configuration: Store.Configuration = .init()
  ) throws(StoreError) {
    try self.init(on: DiskStorage(), at: directory, configuration: configuration)
  }

  /// Opens the store in the directory with this path, like ``init(at:configuration:)``.
  public init(
    at path: String, configuration: Store.Configuration = .init()
  ) throws(StoreError) {
    try self.init(at: FilePath(path), configuration: configuration)
  }

  /// Opens the store on any storage: the disk, memory, or a simulated disk.
  package init(
    on storage: any Storage, at directory: FilePath, configuration: Store.Configuration = .init()
  ) throws(StoreError) {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    try storing { () throws(StorageError) in try ThreadPool.current.secure() }
    let opener = try Self.opener(storage, directory, configuration, pipeline)
    let state = try opener.open(creating: false)
    self.init(opener: opener, pipeline: pipeline, state: state)
  }

  /// - Parameter refusal: the reason why the store has no state and never will have one; nil for a
  ///   store that can be used.
  init(
    opener: Opener, pipeline: CommitPipeline, state: consuming EngineState?,
    refusal: StoreError? = nil
  ) {
    self.opener = opener
    clockBounds = ClockBounds(opener.observers.clock.base)
    checkpoints = CheckpointState(names: state?.checkpointNames ?? [])
    let link = state?.log.link
    let followed = state?.followed ?? (nonce: 0, version: 0)
    peers = PeerAccess(nonce: followed.nonce, seenVersion: followed.version)
    if let events = pipeline.events, let report = state?.report { events.send(.opened(report)) }
    if link != nil { state!.reportPeerSeals() }
    let observers = opener.observers
    let earliestExpiry = state?.log.table.earliestExpiry ?? .max
    if let last = state?.log.lastSequence {
      observers.openedSequence.store(last, ordering: .releasing)
    }
    lifecycle = StoreLifecycle(refusal, StoreEnding(observers.phase))
    #if DEBUG
      engine = state
    #else
      cell = EngineCell(state)
    #endif
    if let link {
      let page = link.page
      pipeline.sharedPage.withLock { $0 = page }
      observers.pins.share(page)
      observers.others.follow(link)
      observers.others.followed(followed.version)
    }
    if refusal != nil {
      observers.phase.beginClosing()
      observers.setUsable(false)
    }
    observers.phase.opened(self)
    if earliestExpiry != .max {
      Task.detached { [weak self, phase = observers.phase] in
        await phase.runTask { await self?.scheduleReaping() }
      }
    }
  }

  deinit { pipeline.stop() }

  static func opener(
    _ storage: any Storage, _ directory: FilePath, _ configuration: Store.Configuration,
    _ pipeline: CommitPipeline
  ) throws(StoreError) -> Opener {
    CurrentProcess.watchForks()
    let path = try absolute(directory, on: storage)
    return Opener(
      storage: storage, path: path, configuration: configuration.bounded(),
      pipeline: pipeline, observers: Observers(clock: configuration.clock))
  }

  /// Returns a path that stays the same when the program's current directory changes.
  package static func absolute(
    _ path: FilePath, on storage: any Storage
  ) throws(StoreError) -> FilePath {
    try storing { () throws(StorageError) in try storage.absolute(path) }
  }

  /// Opens the store like ``init(at:configuration:)``, but does not block the caller's thread.
  public static func open(
    at directory: FilePath, configuration: Store.Configuration = .init()
  ) async throws(StoreError) -> Store {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    return try await open(try opener(DiskStorage(), directory, configuration, pipeline))
  }

  /// Opens the store in the directory with this path, like ``init(at:configuration:)``, but does
  /// not block the caller's thread.
  public static func open(
    at path: String, configuration: Store.Configuration = .init()
  ) async throws(StoreError) -> Store {
    try await open(at: FilePath(path), configuration: configuration)
  }

  /// Opens the store on a thread of the pool.
  static func open(_ opener: Opener, creating: Bool = false) async throws(StoreError) -> Store {
    let pipeline = opener.pipeline
    do throws(StoreError) {
      do throws(StorageError) {
        try await ThreadPool.current.secureWithoutBlocking()
      } catch {
        throw StoreError(error)
      }
      let box = try await opener.openWithoutBlocking(creating: creating)
      return Store(opener: opener, pipeline: pipeline, state: box.take())
    } catch {
      pipeline.stop()
      throw error
    }
  }
}

extension Store {
  nonisolated var pipeline: CommitPipeline {
    @inline(__always) get { opener.pipeline }
  }

  nonisolated var observers: Observers { opener.observers }

  /// Whether the store is open for writing, and in this process only. Then a read needs only the
  /// state of this process.
  @inlinable nonisolated var isAlone: Bool {
    @inline(__always) get { opener.isAlone }
  }

  /// Runs work on the actor that no caller waits for.
  ///
  /// The task runs on a thread of the pool: openings in this process that wait for this store may
  /// block all threads of the cooperative pool.
  nonisolated func startTask(_ work: @escaping @Sendable (isolated Store) async -> Void) {
    let (phase, reference) = (observers.phase, TaskReference(self))
    phase.beginTask()
    Task(executorPreference: PoolExecutor()) {
      await work(reference.store)
      reference.release()
      phase.endTask()
    }
  }

  var isClosed: Bool { lifecycle.isClosed }

  var isSuspended: Bool { lifecycle.isSuspended }

  /// The error that methods of a closed store throw.
  var closedError: StoreError {
    lifecycle.refusal ?? .ofClosedStore
  }

  /// Throws if the store could not be opened. For methods that end without an error when the store
  /// was closed.
  func throwRefusal() throws(StoreError) {
    if let refusal = lifecycle.refusal { throw refusal }
  }

  /// The error that kept the last index checkpoint from being written; nil when there was none.
  /// After such an error, the next opening takes longer.
  public var checkpointFailure: StoreError? { checkpoints.failure }

  /// The error that ended the last background compaction early, or the damage of a segment; nil
  /// when there is neither. After an error, the next compaction begins when a segment is sealed. A
  /// damaged segment stays as it is until the store is reopened; the others are still compacted.
  public var compactionFailure: StoreError? { compaction.failure }
}

extension Store {
  /// Returns a store that could not be opened: every throwing method throws the error, and nothing
  /// is stored.
  package static func refusing(_ error: StoreError) -> Store {
    let pipeline = CommitPipeline()
    let opener = Opener(
      storage: MemoryStorage(), path: "/memory", configuration: Store.Configuration(),
      pipeline: pipeline, observers: Observers())
    return Store(opener: opener, pipeline: pipeline, state: nil, refusal: error)
  }

  /// Creates an empty store in memory, which is released with its last reference: for tests and
  /// previews.
  ///
  /// The store runs the same code as a store on disk. Because it begins empty, `isReadOnly` and
  /// `createIfMissing` are ignored.
  public static func inMemory(configuration: Store.Configuration = .init()) -> Store {
    var writable = configuration
    writable.isReadOnly = false
    writable.createIfMissing = true
    do throws(StoreError) {
      return try Store(on: MemoryStorage(), at: "/memory", configuration: writable)
    } catch {
      fatalError("opening an empty store in memory failed: \(error)")
    }
  }
}

extension Store {
  /// The failure after which the store accepts no more writes; nil while there was none. The store
  /// keeps it when it is closed.
  public nonisolated var poison: StoreError? { pipeline.poison }

  /// Waits until the store stops writing for good, because after a failure it is unknown what the
  /// disk holds. For code that supervises a store and ends the process rather than continue without
  /// the store.
  ///
  /// One such failure is that the files were deleted, moved or replaced (`.storeReplaced`). An idle
  /// store notices that within a second.
  ///
  /// - Returns: the failure; nil when the store was closed before, or when the task was cancelled.
  public nonisolated func waitUntilPoisoned() async -> StoreError? {
    await pipeline.waitUntilPoisoned()
  }

  /// Reports an event to ``Store/Configuration/onEvent``. Call it only from code that is slow
  /// anyway.
  nonisolated func send(_ event: @autoclosure () -> StoreEvent) {
    if let events = pipeline.events { events.send(event()) }
  }

  func sendOpened() {
    guard engine != nil else { return }
    send(.opened(engine!.report))
  }

  /// Reports a failed compaction. A compaction that closing or suspending interrupts has not
  /// failed, and poison has its own event.
  func sendCompactionFailed(_ error: StoreError) {
    if !isClosed, !isSuspended, !pipeline.hasPoison { send(.compactionFailed(error)) }
  }

  /// Reports a full disk: with one event, however many operations find the disk full before space
  /// is freed.
  func sendOutOfSpace(_ error: StoreError) {
    guard writing.beginsToLackSpace() else { return }
    send(.outOfSpace(error))
  }
}

/// The readers of a store besides single calls: snapshots that still exist, readers on other
/// threads, and change sequences that wait.
struct ReaderState {
  let live = LiveSnapshots()
  /// The index that readers use which do not call the actor.
  let views = LiveViews()
  private weak var lastSnapshot: SnapshotHandle?
  private var lastCompactionCount: UInt64 = 0
  private var lastStateCount: UInt64 = 0
  /// Change sequences that wait for an operation.
  var waiters = Waiters()
  private var isAwaitingPoison = false

  /// Returns the last snapshot, if it still exists and shows the current state of the store.
  func snapshot(
    at sequence: UInt64, compactionCount: UInt64, stateCount: UInt64, _ ordered: OrderedKeyspaces,
    earliestExpiry: UInt64, now: @autoclosure () -> UInt64
  ) -> SnapshotHandle? {
    guard let lastSnapshot, earliestExpiry == .max || earliestExpiry > now(),
      lastSnapshot.state.sequence.rawValue == sequence,
      lastCompactionCount == compactionCount, lastStateCount == stateCount,
      lastSnapshot.state.live.trees.ordered == ordered
    else { return nil }
    return lastSnapshot
  }

  /// Keeps a snapshot for the next reader, as long as a reader holds it.
  mutating func keep(_ snapshot: SnapshotHandle, compactionCount: UInt64, stateCount: UInt64) {
    lastSnapshot = snapshot
    lastStateCount = stateCount
    lastCompactionCount = compactionCount
  }

  /// Records that a task waits for the poison.
  ///
  /// - Returns: whether no task has waited for it before.
  mutating func beginsToAwaitPoison() -> Bool {
    defer { isAwaitingPoison = true }
    return !isAwaitingPoison
  }
}

/// The reference of a task to its store, which the task releases before it ends.
private final class TaskReference: Sendable {
  private let place: Mutex<Store?>

  init(_ store: Store) { place = Mutex(store) }

  var store: Store {
    guard let store = place.withLock({ $0 }) else { fatalError("a task has released its store") }
    return store
  }

  func release() { place.withLock { $0 = nil } }
}

/// Record of whether a store is open, suspended or closed.
struct StoreLifecycle {
  /// The reason why a store could not be opened; nil for a store that was open.
  let refusal: StoreError?
  /// Whether `close()` was called, or the store was never open.
  private(set) var isClosed: Bool
  /// Whether the store is between `suspend()` and `resume()`.
  private(set) var isSuspended = false
  /// Why the state in memory must not be read: it never was a state of the archive that the store
  /// follows. Nil for every other store.
  private(set) var divergence: StoreError?
  /// Whether the store is neither closed nor suspended, and its state can be read.
  private(set) var isUsable: Bool
  /// Whether a store existed in the directory at the time of the suspension.
  private(set) var existed = false
  /// The history that the store has left in its directory; nil when it has not left one.
  private(set) var left: StoreHistory?
  /// Number of bytes that the store had appended when it left its directory.
  private(set) var leftAppendedBytes: UInt64 = 0
  /// Held by the call that suspends or resumes the store. Such calls come one after the other, in
  /// their order: an app may go into the background while it still opens its stores.
  let turnGate = AsyncGate()
  private let ending: StoreEnding

  init(_ refusal: StoreError?, _ ending: StoreEnding) {
    self.refusal = refusal
    self.ending = ending
    isClosed = refusal != nil
    isUsable = refusal == nil
  }

  /// Closes the store.
  ///
  /// - Returns: whether this is the first call.
  mutating func close() -> Bool {
    defer { (isClosed, isUsable) = (true, false) }
    return !isClosed
  }

  mutating func suspend() {
    assert(!isSuspended && !isClosed, "only an open store can be suspended")
    (isSuspended, isUsable) = (true, false)
  }

  /// Records that the state in memory must not be read.
  mutating func diverge(_ error: StoreError) { (divergence, isUsable) = (error, false) }

  /// Records that a suspended store leaves its directory.
  mutating func leave(exists: Bool) {
    assert(isSuspended, "only a suspended store leaves its directory")
    existed = exists
  }

  /// Records the history that the store leaves in its directory.
  mutating func leave(_ history: StoreHistory) { left = history }

  /// Records the count of appended bytes, which the next state continues.
  mutating func leave(appendedBytes: UInt64) { leftAppendedBytes = appendedBytes }

  mutating func resume() {
    assert(isSuspended, "only a suspended store can be resumed")
    isSuspended = false
    isUsable = !isClosed && divergence == nil
  }
}

/// The first call of `close()`, for which later calls wait.
///
/// Part of the store's actor: no other isolation uses it. It is no part of ``StoreLifecycle``,
/// which each operation reads: with a call of the gate in a method that changes the lifecycle, the
/// compiler would check each of these reads for exclusive access.
final class ClosingState {
  private let gate = AsyncGate()
  private var failure: StoreError?

  /// Whether a call closes the store now.
  var isUnderWay: Bool { gate.isHeld }

  func begin() { gate.take() }

  /// Records that the call ends.
  func end(_ failure: StoreError?) {
    self.failure = failure
    gate.release()
  }

  /// Waits until the call has ended, and returns its error.
  nonisolated(nonsending) func waitForEnd() async -> StoreError? {
    await gate.waitUntilFree()
    return failure
  }
}

/// State of a store's index checkpoints.
struct CheckpointState {
  /// Number of the bytes replayed and written in this run that the last checkpoint covers.
  private(set) var coveredBytes: UInt64 = 0
  /// Total size of all checkpoints that this run has written, in bytes.
  private(set) var writtenBytes: UInt64 = 0
  /// The error that kept the last checkpoint from being written; nil when it was written.
  private(set) var failure: StoreError?
  /// The names of the checkpoints in the directory.
  var names: [String] = []

  init(names: [String] = []) { self.names = names }

  /// Begins to count again for a state that was just opened.
  ///
  /// - Parameter writtenBytes: bytes that this run has appended before, and that its compactions
  ///   have written.
  mutating func beginCounting(names: [String], writtenBytes: UInt64) {
    self.names = names
    coveredBytes = writtenBytes
  }

  mutating func recordWriting(lengthBytes: UInt64, covering bytes: UInt64) {
    assert(bytes >= coveredBytes, "a checkpoint covers less than the one before it")
    assert(lengthBytes > 0, "a checkpoint is empty")
    failure = nil
    coveredBytes = bytes
    writtenBytes &+= lengthBytes
  }

  mutating func recordFailure(_ error: StoreError) { failure = error }

  /// Records that the checkpoints were removed, because they contradicted the log.
  mutating func recordRemoval() {
    names = []
    coveredBytes = 0
  }
}

extension Store {
  /// Applies the records that other processes have written. Throws when nothing can be read.
  @inline(__always)
  func checkOpen() async throws(StoreError) {
    try checkUsable()
    guard isShared else { return }
    try await catchUp()
    // The store may have been closed since.
    try checkUsable()
  }

  @inline(__always)
  func checkUsable() throws(StoreError) {
    if !lifecycle.isUsable { try refuseUse() }
  }

  /// Throws the reason why the store cannot be used.
  @inline(never)
  private func refuseUse() throws(StoreError) {
    if isClosed { throw closedError }
    if isSuspended {
      try checkNotReplaced()
      throw .ofSuspendedStore
    }
    try checkProven()
    preconditionFailure("a store that can be used counts as one that cannot")
  }

  /// Throws when the state in memory must not be read.
  func checkProven() throws(StoreError) {
    if let divergence = lifecycle.divergence { throw divergence }
  }

  /// Wakes the tasks that wait for a change.
  @inline(__always)
  func wakeForChange() {
    refreshStaleReaders()
    readers.waiters.wakeAll()
  }
}

extension Store {
  /// Replaces the manifest on disk by one that describes the current state.
  func publishManifest() async throws(StoreError) {
    try await publishManifest(engine!.nextManifest())
  }

  /// Replaces the manifest on disk, and then adopts the new one.
  ///
  /// - Parameter next: made from ``EngineState/nextManifest(sealing:)`` in the same turn.
  func publishManifest(_ next: Manifest) async throws(StoreError) {
    let publisher = engine!.log.publisher()
    try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    engine!.log.adoptManifest(next)
  }
}
