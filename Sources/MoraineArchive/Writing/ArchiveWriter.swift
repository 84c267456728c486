public import MoraineEngine
import MoraineFormat
import MoraineStorage
import Synchronization

/// The writer of an archive: it ships what a store writes.
///
/// About once an interval it takes a cut of the log, waits until the disk has it, and ships the
/// bytes since the last cut. The store's own writes wait for nothing. While the store of objects
/// cannot be reached, it tries again and again; ``status`` says since when.
public actor ArchiveWriter {
  let store: Store
  let objects: ArchiveObjects
  private let meter: MeteredObjectStore
  /// Counts the requests of cleanings.
  let cleaningMeter: MeteredObjectStore
  let configuration: ArchiveConfiguration
  let retired: RetiredSegments
  /// What a follower needs to become the writer; nil after that, and for other stores.
  var promotion: Promotion?
  /// The machine of the protocol; nil when the writer must take over first.
  var machine: Shipping?
  /// What the archive has.
  var shipped = ArchivedState.empty
  /// Whether the archive has a whole copy of the store, from which the log leads on.
  var hasCopy = false
  /// Whether ``retired`` has received each segment that was replaced since ``shipped``.
  var isContinuous = false
  /// The stay of the store in its directory at the last cut; nil before the first one.
  var stay: UInt64?
  /// The position and the nonce of the last commit, which may end between two cuts.
  var position: UInt64 = 0
  var previous = Nonce.zero
  /// The end of the log in the archive: that of ``shipped``, or a later place between two cuts.
  var logEnd: LogPlace?
  /// The commit whose request is open, so that the same bytes are sent again.
  var pending: PendingCommit?
  /// The checkpoint whose request is open.
  var pendingCheckpoint: PendingCheckpoint?
  /// When the last request that found no later writer was sent.
  var lastCheck = ContinuousClock.now
  /// The keyspaces that the archive knows; nil when all have to travel with the next commit.
  var knownKeyspaces: Set<CommitHeader.Keyspace>?
  /// The upload of a checkpoint that is under way.
  var upload: CheckpointUpload?
  var uploaded = UploadedSegments()
  var checkpointed: CheckpointProgress
  /// The cleaning that is under way.
  var cleaning: Task<Void, Never>?
  var cleaningMemory = CleaningMemory()
  /// Whether the last cleaning has failed.
  var hasCleaningFailed = false
  var failure: ArchiveError?
  /// Held by the call that ships.
  private let turn = AsyncGate()
  private var task: Task<Void, Never>?
  nonisolated let progress = Mutex(ArchiveStatus())
  /// Whether a task is on its way to ship for operations that wait.
  private nonisolated let isWoken = Atomic<Bool>(false)
  /// The identity for the operations that wait.
  let owner = ReplicationOwner()

  /// A commit and the state after it.
  struct PendingCommit {
    let header: CommitHeader
    let bytes: [UInt8]
    /// Nil for a commit that ends between two cuts.
    let state: ArchivedState?
    var action: Shipping.Action
  }

  private init(
    _ store: Store, _ objects: ArchiveObjects, _ configuration: ArchiveConfiguration
  ) {
    (self.store, self.configuration) = (store, configuration)
    checkpointed = CheckpointProgress(began: configuration.now())
    meter = MeteredObjectStore(objects.store)
    cleaningMeter = MeteredObjectStore(meter)
    self.objects = objects.through(meter)
    retired = RetiredSegments(shippedThrough: .none, limitBytes: configuration.heldBytesLimit)
  }

  deinit {
    task?.cancel()
    upload?.task.cancel()
    cleaning?.cancel()
    let error = ArchiveError(.cancelled, "the writer of the archive was released")
    store.replicationFailed(owner, error.ofWaitingOperation, isLast: true)
  }

  static func attach(
    _ store: Store, _ objects: ArchiveObjects, _ configuration: ArchiveConfiguration
  ) async throws(ArchiveError) -> ArchiveWriter {
    let writer = ArchiveWriter(store, objects, configuration)
    let cut = try await store.archivedState()
    guard await store.following == nil else {
      throw ArchiveError(
        StoreError(
          .invalidArgument, "this store follows an archive; promote the follower to write to it"))
    }
    guard cut.head.storeID == objects.identity.storeID else {
      throw ArchiveError(
        .otherStore, "the archive is of another store; choose another name for this one",
        object: objects.names.identity)
    }
    let earlier = await store.attach(writer.retired)
    do throws(ArchiveError) {
      try await writer.begin()
    } catch {
      await store.detach(writer.retired, for: earlier)
      throw error
    }
    return writer
  }

  /// Attaches a follower's store, which becomes the writer.
  ///
  /// - Returns: nil when the history went on from another state than the follower has. Nothing but
  ///   the term was written then.
  static func attach(
    _ store: Store, _ objects: ArchiveObjects, _ configuration: ArchiveConfiguration,
    promotion: Promotion
  ) async throws(ArchiveError) -> ArchiveWriter? {
    let writer = ArchiveWriter(store, objects, configuration)
    let earlier = await store.attach(writer.retired)
    var isAttached = false
    do throws(ArchiveError) {
      isAttached = try await writer.begin(promotion)
    } catch {
      await store.detach(writer.retired, for: earlier)
      throw error
    }
    if !isAttached { await store.detach(writer.retired, for: earlier) }
    return isAttached ? writer : nil
  }

  private func begin(_ promotion: Promotion) async throws(ArchiveError) -> Bool {
    self.promotion = promotion
    defer { self.promotion = nil }
    guard try await takeOver() else { return false }
    // From here on the store is the writer's, also while the archive cannot be reached.
    start()
    return true
  }

  private func begin() async throws(ArchiveError) {
    try await round()
    start()
  }

  private func start() {
    store.beginReplication(owner) { [weak self] in self?.wake() }
    store.replicated(owner, through: shipped.sequence)
    task = Task { [weak self, interval = configuration.interval] in
      while !Task.isCancelled {
        do { try await Task.sleep(for: interval) } catch { return }
        guard let self, await self.shipInBackground() else { return }
      }
    }
  }

  /// The state of the shipping.
  public nonisolated var status: ArchiveStatus {
    var status = progress.withLock { $0 }
    (status.heldBytes, status.traffic) = (retired.heldBytes, meter.traffic)
    return status
  }

  /// Ships everything that was written before the call.
  ///
  /// - Returns: the number of the last operation that the archive has.
  /// - Throws: `.unavailable` when the store of objects did not answer in time; the shipping goes
  ///   on. `.fenced`, `.damaged`, `.store`: the writer has ended.
  @discardableResult
  public func flush() async throws(ArchiveError) -> SequenceNumber {
    try await inTurn { (writer) throws(ArchiveError) in try await writer.round() }
    return shipped.sequence
  }

  /// Ships everything, and makes a checkpoint of it.
  ///
  /// - Throws: the errors of ``flush()``.
  public func checkpoint() async throws(ArchiveError) {
    var wanted: UInt64?
    repeat {
      try await finishCheckpointUnderWay()
      try await inTurn { (writer) throws(ArchiveError) in
        try await writer.round(wantsCheckpoint: true)
      }
      wanted = wanted ?? shipped.position
      try await finishCheckpointUnderWay()
      // A round in the background may have begun another upload first, or seen the error of this
      // one.
    } while checkpointed.position < wanted ?? 0
  }

  /// Waits until the checkpoint that is under way exists. The log is shipped beside its upload.
  package func finishCheckpointUnderWay() async throws(ArchiveError) {
    _ = await upload?.task.value
    try await inTurn { (writer) throws(ArchiveError) in
      try await writer.finishUploadIfDone()
      try await writer.finishCheckpoint()
    }
  }

  /// Ships everything, and ends the writing of the archive in order. The store goes on.
  ///
  /// A cleaning that is under way has time to end as long as its requests are answered: it makes
  /// one for each checkpoint, and more. After some seconds without an answer, or when the calling
  /// task is cancelled, the cleaning is interrupted, which leaves what the next one removes. The
  /// event ``ArchiveEvent/cleaningFailed(_:)`` says so. The log is shipped before.
  ///
  /// - Throws: the errors of ``flush()``. The writer has ended also then.
  public func detach() async throws(ArchiveError) {
    task?.cancel()
    do throws(ArchiveError) {
      try await inTurn { (writer) throws(ArchiveError) in
        try await writer.round(wantsCheckpoint: writer.hasManyCommits)
        try await writer.finishUpload()
        try await writer.close()
      }
    } catch {
      await end(error)
      throw error
    }
    await waitForCleaning()
    reportInterruptedCleaning()
    // This also interrupts the cleaning, without a wait for the answer to its request.
    await end(ArchiveError(.cancelled, "the writer of the archive was detached"))
  }

  /// Whether a restore would read many commits: a program that runs briefly each time makes no
  /// checkpoint otherwise.
  private var hasManyCommits: Bool { shipped.position > checkpointed.position + 64 }

  /// Ends the writer as a killed process does; for tests.
  package func abandon() async {
    task?.cancel()
    await end(ArchiveError(.cancelled, "the writer of the archive was abandoned"))
  }

  /// Ships soon, because an operation waits for it. The operations that begin to wait then go
  /// with the next round.
  private nonisolated func wake() {
    // Acquiring and releasing, here and where the flag is taken back: the task that takes it back
    // comes after the append of each operation that found the flag set, so its cut has them.
    guard !isWoken.exchange(true, ordering: .acquiringAndReleasing) else { return }
    Task { [weak self] in _ = await self?.shipInBackground() }
  }

  private func shipInBackground() async -> Bool {
    do throws(ArchiveError) {
      try await inTurn { (writer) throws(ArchiveError) in
        _ = writer.isWoken.exchange(false, ordering: .acquiringAndReleasing)
        // Comes after the flag: an operation that begins to wait from here on wakes another round.
        writer.store.replicationBegins(writer.owner)
        try await writer.round()
      }
      store.replicated(owner, through: shipped.sequence)
      noteSuccess()
      return true
    } catch {
      if failure != nil { return false }
      note(error)
      store.replicationFailed(owner, error.ofWaitingOperation, isLast: false)
      return !Task.isCancelled
    }
  }

  /// Runs the body while no other call ships.
  private func inTurn(
    _ body: (isolated ArchiveWriter) async throws(ArchiveError) -> Void
  ) async throws(ArchiveError) {
    await turn.acquire()
    defer { turn.release() }
    if let failure { throw failure }
    do throws(ArchiveError) {
      try await body(self)
    } catch {
      if error.endsTheWriter { await end(error) }
      throw error
    }
  }

  private func end(_ error: ArchiveError) async {
    guard failure == nil else { return }
    failure = error
    task?.cancel()
    upload?.task.cancel()
    cleaning?.cancel()
    let wasCurrent = await store.detach(retired)
    store.replicationFailed(owner, error.ofWaitingOperation, isLast: true)
    progress.withLock { $0.failure = error }
    if error.code != .cancelled { configuration.onEvent?(.ended(error)) }
    // A later writer of this very store archives what is written from now on.
    if error.code == .fenced, wasCurrent { store.fence(error.message) }
  }

  private func note(_ error: ArchiveError) {
    let isNew = progress.withLock { status in
      defer { status.lastError = error }
      guard status.stuckSince == nil else { return false }
      status.stuckSince = .now
      return true
    }
    if isNew { configuration.onEvent?(.stuck(error)) }
  }

  private func noteSuccess() {
    progress.withLock { ($0.stuckSince, $0.lastError) = (nil, nil) }
  }

  /// Records that the archive has all operations of a moment.
  func wasUpToDate(_ moment: ContinuousClock.Instant) {
    progress.withLock { $0.upToDateAt = moment }
  }

  /// Records what the archive has now.
  func became(_ state: ArchivedState) {
    shipped = state
    retired.shipped(through: state.sequence)
    store.replicated(owner, through: state.sequence)
    progress.withLock { status in
      status.archivedSequence = state.sequence
      status.position = state.position
      status.term = state.term
    }
  }
}

/// The state of an ``ArchiveWriter``.
public struct ArchiveStatus: Sendable {
  /// The number of the last operation that the archive has.
  public internal(set) var archivedSequence = SequenceNumber.none
  /// The position of the last commit.
  public internal(set) var position: UInt64 = 0
  /// The term of the writer.
  public internal(set) var term: UInt64 = 0
  /// The number of the newest checkpoint; 0 for none.
  public internal(set) var checkpoint: UInt64 = 0
  /// A moment whose operations the archive has all; nil before the first round. The time since then
  /// is how far the archive lags at most.
  public internal(set) var upToDateAt: ContinuousClock.Instant?
  /// The bytes of replaced segments that are kept until they are shipped; see
  /// ``ArchiveConfiguration/heldBytesLimit``.
  public internal(set) var heldBytes = 0
  /// The requests since the writer was attached, and their bytes.
  public internal(set) var traffic = ObjectTraffic()
  /// Since when requests fail; nil when the last round succeeded.
  public internal(set) var stuckSince: ContinuousClock.Instant?
  /// The error of the last round, if it failed.
  public internal(set) var lastError: ArchiveError?
  /// Why the writer has ended; nil while it ships.
  public internal(set) var failure: ArchiveError?
}

extension ArchiveError {
  /// The error for an operation that waits until the archive has it.
  fileprivate var ofWaitingOperation: StoreError {
    if let storeError { return storeError }
    return StoreError(
      code == .fenced ? .fenced : .archiveUnavailable,
      "\(message); the operation is durable here, and may be in the archive")
  }

  /// Whether a writer cannot go on after the error.
  fileprivate var endsTheWriter: Bool {
    switch code {
    case .unavailable, .cancelled: false
    case .store: storeError?.code != .suspended
    default: true
    }
  }
}
