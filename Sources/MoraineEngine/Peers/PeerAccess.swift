import MoraineStorage

/// The part of a shared store's state that concerns other processes: the locks that this process
/// holds, the publications that it has applied, and the reading of states that others published.
///
/// Part of the store's actor: no other isolation uses it. The work itself is in `Sharing/`.
final class PeerAccess {
  /// Held by the task that waits for the writer's lock and takes over the log.
  private let entryGate = AsyncGate()
  /// Number of writers and compactions of this store that have the writer's lock together; 0 when
  /// other processes may take it.
  private var leaseDepth = 0
  /// Whether a writer of this process has the lock and is applying the writes of other processes.
  /// Readers wait until that ends.
  private(set) var isTakingOver = false
  /// Whether the store is giving up its state: from then on no task may take over.
  private(set) var refusesTakeovers = false
  /// The version of the page that this process has followed.
  private(set) var seenVersion: UInt64 = 0
  /// The nonce of the page when this process last read a whole state.
  private(set) var nonce: UInt64 = 0
  private var adoptedVersion: UInt64 = 0
  /// Number of states that this store has had. It shows whether a state that another thread has
  /// read may still replace the current one.
  private(set) var stateCount: UInt64 = 0
  /// Number of states that were read from the files. While it stays, the store has one state, which
  /// is only appended to, and the files of its snapshots exist.
  private(set) var readStateCount: UInt64 = 0
  private var hasCompactor = false
  /// Whether segments are being rewritten. They keep their slots until that ends.
  private(set) var keepsSlots = false
  /// The queue on whose thread a reader reads the store again; nil when none does.
  private(set) var rereadQueue: SerialQueue?
  private let rereadEnd = AsyncGate()
  private var rereadFailure: StoreError?
  /// Wakes this process when others have written; nil while no task waits for changes.
  private(set) var watch: PeerWatcher?
  private var isLookScheduled = false

  /// Creates the access of a store that has followed a page up to a version; zeros without a page.
  init(nonce: UInt64, seenVersion: UInt64) {
    self.nonce = nonce
    self.seenVersion = seenVersion
  }
}

/// The writer's lease: this process has the writer's lock and knows all records.
extension PeerAccess {
  /// Whether this process may append.
  var hasLease: Bool { leaseDepth > 0 }

  /// Whether a task waits for the writer's lock or takes over; for tests.
  var isEntering: Bool { entryGate.isHeld }

  /// Waits until no task of this process waits for the lock.
  nonisolated(nonsending) func waitForEntry() async { await entryGate.waitUntilFree() }

  /// Waits until a takeover has ended, or the task that waited for the lock has given up.
  nonisolated(nonsending) func waitForTakeover() async {
    assert(isTakingOver, "a reader waits for a takeover that no task does")
    await entryGate.waitForWakeUp()
  }

  /// Joins the writers of this process that have the lock already.
  ///
  /// - Returns: false when none has it.
  func joinLease() -> Bool {
    guard leaseDepth > 0 else { return false }
    leaseDepth += 1
    return true
  }

  /// Begins to wait for the writer's lock. No other task does. Ends with ``endEntry()``.
  func beginEntry() {
    assert(leaseDepth == 0, "a task waits for a lock that this process has")
    entryGate.take()
  }

  /// Records that the store is giving up its state. A task that waits for the lock gets an error.
  func beginRefusal() {
    assert(!isTakingOver, "a store gives up its state while a task takes over")
    refusesTakeovers = true
  }

  func endRefusal() { refusesTakeovers = false }

  /// Records that this process got the lock, and applies the writes of others now.
  func beginTakeover() {
    assert(entryGate.isHeld, "a task takes over without waiting for the lock")
    assert(!refusesTakeovers, "a task takes over a state that is given up")
    assert(!isTakingOver, "two tasks take over the log at the same time")
    isTakingOver = true
  }

  /// Records that the takeover succeeded. A state that a reader is reading on another thread is
  /// older than the records of this writer.
  func beginLease() {
    assert(isTakingOver, "a lease begins without a takeover")
    precondition(leaseDepth == 0, "two tasks took the writer's lock")
    stateCount += 1
    leaseDepth = 1
  }

  func endEntry() {
    isTakingOver = false
    entryGate.release()
  }

  /// Records that a writer of this process leaves.
  ///
  /// - Returns: whether it was the last one: the caller releases the lock.
  func leaveLease() -> Bool {
    precondition(leaseDepth > 0, "a lease is released that is not held")
    leaseDepth -= 1
    return leaseDepth == 0
  }
}

/// The publications in the shared page that this process has applied.
extension PeerAccess {
  /// Records the version of the page up to which this process has followed the others.
  func recordFollowing(_ version: UInt64) { seenVersion = version }

  /// Records that the published version is this process's own. While the page has this version, the
  /// process knows the segment to append to.
  func recordPublication(_ version: UInt64) {
    seenVersion = version
    adoptedVersion = version
  }

  /// Whether no process has published anything since this process did.
  func isLastPublisher(_ version: UInt64) -> Bool { version == adoptedVersion }

  /// Records that the store has another state now.
  func recordNewState() {
    stateCount += 1
    readStateCount += 1
  }

  /// Records that the store has a state that was read from the files of a page.
  func recordNewState(nonce: UInt64, version: UInt64) {
    self.nonce = nonce
    seenVersion = version
    adoptedVersion = 0
  }

  /// Whether a state that a reader began to read at a state count may replace the current state: a
  /// writer of this process that came first has applied more records, and a compaction needs the
  /// slots of its segments.
  func mayInstall(readSince count: UInt64) -> Bool {
    stateCount == count && !isTakingOver && leaseDepth == 0 && !keepsSlots
  }
}

/// The compactor's lock: one process at a time rewrites segments.
extension PeerAccess {
  func recordCompactor(_ hasCompactor: Bool) {
    assert(!self.hasCompactor, "the compactor's lock is taken twice")
    self.hasCompactor = hasCompactor
  }

  /// Begins to keep the slots of the segments that are rewritten.
  func beginRewriting() {
    assert(!keepsSlots, "segments are rewritten by two compactions")
    keepsSlots = hasCompactor
  }

  /// Ends the rewriting.
  ///
  /// - Returns: whether this process has had the lock: the caller releases it.
  func endRewriting() -> Bool {
    assert(hasCompactor || !keepsSlots, "segments are rewritten without the lock")
    defer { (hasCompactor, keepsSlots) = (false, false) }
    return hasCompactor
  }
}

/// Reading the whole store again, on a thread of the pool, one read at a time.
extension PeerAccess {
  var isRereading: Bool { rereadQueue != nil }

  func beginRereading(on queue: SerialQueue) {
    precondition(rereadQueue == nil, "a store is reread twice at the same time")
    rereadQueue = queue
    rereadFailure = nil
  }

  /// Records that another process kept a lock for too long. The readers that wait get this error.
  func recordRereadFailure(_ error: StoreError) { rereadFailure = error }

  func endRereading() {
    assert(rereadQueue != nil, "a reread ends that never began")
    rereadQueue = nil
  }

  /// Wakes the readers that wait for the end of a reread.
  func wakeWaitingReaders() { rereadEnd.wakeAll() }

  /// Waits until the reread under way has ended: it has waited for the lock on behalf of all
  /// readers.
  ///
  /// - Throws: `.locked`, its error.
  nonisolated(nonsending) func waitForReread() async throws(StoreError) {
    assert(rereadQueue != nil, "a reader waits for a reread that no task does")
    await rereadEnd.waitForWakeUp()
    if let rereadFailure { throw rereadFailure }
  }
}

/// Notifications of other processes' writes.
extension PeerAccess {
  func beginWatching(_ watch: PeerWatcher) {
    assert(self.watch == nil, "a store watches its page twice")
    self.watch = watch
  }

  func endWatching() {
    watch?.stop()
    watch = nil
  }

  /// Records that a look at a store that does not exist yet is scheduled.
  ///
  /// - Returns: false when one was scheduled before.
  func beginScheduledLook() -> Bool {
    defer { isLookScheduled = true }
    return !isLookScheduled
  }

  func endScheduledLook() { isLookScheduled = false }
}
