public import MoraineEngine
import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// A store on this machine that follows an archive: what another machine writes appears here some
/// seconds later.
///
/// ```swift
/// let follower = try await archive.follow(in: "/var/lib/replica")
/// let users = try follower.store.keyspace(named: "users")
/// let value = try await users.value(forKey: "ada")
/// print(follower.freshness.sequence)
/// ```
///
/// Each state that readers see is a state of the archived store, after one of its operations. The
/// digest of the live records is compared at each state. Every read, snapshot and change feed works
/// as in any other store; writes throw `.readOnly`. ``promote()`` makes the follower the writer.
public actor Follower {
  let objects: ArchiveObjects
  private let meter: MeteredObjectStore
  let configuration: ArchiveConfiguration
  let path: FilePath
  let storage: any Storage
  let storeConfiguration: Store.Configuration
  private let current: Mutex<Store>
  private let progress: Mutex<Freshness>
  /// The machine of the protocol.
  var reader: HistoryReader
  /// The place of the last state that was applied and is durable.
  var durable: Manifest.Following
  /// What was received after that state and belongs to the next one.
  var next = PendingState()
  /// Whether the history went on from another state than this follower has: a whole copy follows.
  var needsCopy = false
  /// The highest epoch that any commit names.
  var highestEpoch: UInt64
  /// Number of polls that found nothing, since the last one that asked for a checkpoint.
  var idlePolls = Follower.pollsPerCheckpoint
  /// The position of the last whole copy with which the follower began again.
  var lastCopy: UInt64?
  /// Whether the store was closed, to put another one in its place.
  var hasClosedStore = false
  private var failure: ArchiveError?
  private var waiters: [UInt64: Waiter] = [:]
  private var nextWaiter: UInt64 = 0
  private let turn = AsyncGate()
  private var task: Task<Void, Never>?

  private struct Waiter {
    let sequence: SequenceNumber
    let continuation: CheckedContinuation<ArchiveError?, Never>
  }

  /// What belongs to a state that is received in several commits.
  struct PendingState {
    var keyspaces: [CommitHeader.Keyspace] = []
    var lives: [Manifest.Epoch] = []
    /// Number of times that the store has received bytes.
    var receivedCount = 0
    /// The position of the state up to which the store has bytes that were not received again.
    var assumedPosition: UInt64 = 0
  }

  private init(
    _ store: Store, _ place: Manifest.Following, _ cut: LogCut, _ archive: Archive,
    _ path: FilePath, _ storage: any Storage, _ storeConfiguration: Store.Configuration,
    highestEpoch: UInt64
  ) {
    configuration = archive.configuration
    meter = MeteredObjectStore(archive.objects.store)
    objects = archive.objects.through(meter)
    (self.path, self.storage) = (path, storage)
    self.storeConfiguration = storeConfiguration
    current = Mutex(store)
    durable = place
    self.highestEpoch = max(highestEpoch, cut.head.epoch)
    reader = HistoryReader(applied: CommitReference(place), checkpoint: place.checkpoint)
    progress = Mutex(Freshness(sequence: cut.sequence, position: place.position))
  }

  /// The local store. Another object takes its place when the follower begins again from a whole
  /// copy (``ArchiveEvent/rebased(position:)``); the earlier one is closed then.
  public nonisolated var store: Store { current.withLock { $0 } }

  /// How far the follower is.
  public nonisolated var freshness: Freshness {
    var freshness = progress.withLock { $0 }
    freshness.traffic = meter.traffic
    return freshness
  }

  /// Applies what the archive has now.
  ///
  /// - Returns: the number of the last operation that the store has.
  /// - Throws: `.unavailable` when the store of objects did not answer in time, and
  ///   `.stateUnavailable` when a cleaning has removed a whole copy while it was read; the
  ///   following goes on. `.damaged`, `.diverged`, `.store`: the follower has ended; its store can
  ///   still be read.
  @discardableResult
  public func catchUp() async throws(ArchiveError) -> SequenceNumber {
    try await inTurn { (follower) throws(ArchiveError) in try await follower.readAll(asks: true) }
    return freshness.sequence
  }

  /// Waits until the store has an operation. Returns at once when it has it.
  ///
  /// - Throws: `.cancelled`; the error with which the follower has ended.
  public func waitFor(_ sequence: SequenceNumber) async throws(ArchiveError) {
    if freshness.sequence >= sequence { return }
    if let failure { throw failure }
    nextWaiter += 1
    let number = nextWaiter
    let error = await withTaskCancellationHandler {
      await withCheckedContinuation { (continuation: CheckedContinuation<ArchiveError?, Never>) in
        if Task.isCancelled { return continuation.resume(returning: Self.cancelled) }
        waiters[number] = Waiter(sequence: sequence, continuation: continuation)
      }
    } onCancel: {
      Task { await self.cancel(number) }
    }
    if let error { throw error }
  }

  private static let cancelled = ArchiveError(
    .cancelled, "the task was cancelled while it waited for an operation of the archive")

  private func cancel(_ number: UInt64) {
    waiters.removeValue(forKey: number)?.continuation.resume(returning: Self.cancelled)
  }

  /// Ends the following and closes the store.
  ///
  /// - Throws: `.store`.
  public func close() async throws(ArchiveError) {
    task?.cancel()
    // A poll that is under way may put another store in the place of this one.
    await turn.acquire()
    defer { turn.release() }
    await endFollowing(ArchiveError(.cancelled, "the follower was closed"))
    do throws(StoreError) { try await store.close() } catch { throw ArchiveError(error) }
  }

  /// Takes over the writing: fences the archive's writer, applies everything that it has archived,
  /// and lets this store be written to and archived from now on.
  ///
  /// What the earlier writer had not archived is not part of this store. Its machine keeps it; see
  /// ``Archive/rejoin(in:configuration:)``.
  ///
  /// - Returns: the store and its writer. The follower has ended.
  /// - Throws: `.fenced` when another writer attaches at the same time; `.unavailable`;
  ///   `.stateUnavailable`; then the following goes on. `.damaged`, `.diverged`, `.store`.
  public func promote() async throws(ArchiveError) -> (store: Store, writer: ArchiveWriter) {
    var writer: ArchiveWriter?
    try await inTurn { (follower) throws(ArchiveError) in
      writer = try await follower.takeOver()
      await follower.endFollowing(
        ArchiveError(.cancelled, "the follower was promoted; its store is written to now"))
    }
    guard let writer else { preconditionFailure("a follower was promoted without a writer") }
    return (store, writer)
  }

  // MARK: Running

  /// Opens a follower, or makes it from the archive when there is none.
  static func open(
    _ archive: Archive, in directory: FilePath, on storage: any Storage,
    _ configuration: Store.Configuration, polls: Bool
  ) async throws(ArchiveError) -> Follower {
    try check(configuration)
    // The directory is opened again later, when the program may have another current directory.
    let path: FilePath
    do throws(StoreError) { path = try Store.absolute(directory, on: storage) } catch {
      throw ArchiveError(error)
    }
    var settings = configuration
    settings.followsArchive = true
    settings.isReadOnly = false
    var highestEpoch: UInt64 = 0
    if try await isEmpty(path, storage) {
      highestEpoch = try await ArchiveRestore(
        objects: archive.objects, storage: storage, path: path, follows: true, nil
      ).follow()
    }
    let store = try await opened(path, storage, settings)
    guard let place = await store.following, let cut = try await cut(of: store) else {
      throw ArchiveError(
        .diverged, "the store at \(path) follows no archive; choose another directory")
    }
    guard place.archiveID == archive.objects.archiveID else {
      throw ArchiveError(
        .otherStore, "the store at \(path) follows another archive; choose another directory")
    }
    let follower = Follower(
      store, place, cut, archive, path, storage, settings, highestEpoch: highestEpoch)
    if polls { await follower.start() }
    return follower
  }

  /// Throws for a configuration that a follower cannot have.
  static func check(_ configuration: Store.Configuration) throws(ArchiveError) {
    guard configuration.sharing == .exclusive else {
      throw ArchiveError(
        StoreError(
          .invalidArgument, "one process has a follower's store open; leave 'sharing' at .exclusive"
        ))
    }
  }

  static func opened(
    _ path: FilePath, _ storage: any Storage, _ configuration: Store.Configuration
  ) async throws(ArchiveError) -> Store {
    do throws(StoreError) {
      return try await Store.open(
        on: storage, at: path, configuration: configuration)
    } catch {
      throw ArchiveError(error)
    }
  }

  private static func isEmpty(
    _ path: FilePath, _ storage: any Storage
  ) async throws(ArchiveError) -> Bool {
    do throws(StoreError) { return try await !Store.exists(at: path, on: storage) } catch {
      throw ArchiveError(error)
    }
  }

  static func cut(of store: Store) async throws(ArchiveError) -> LogCut? {
    do throws(StoreError) { return try await store.logCut() } catch { throw ArchiveError(error) }
  }

  private func start() {
    task = Task { [weak self, interval = configuration.pollInterval] in
      while !Task.isCancelled {
        guard let self, await self.followInBackground() else { return }
        do { try await Task.sleep(for: interval) } catch { return }
      }
    }
  }

  /// Applies what the archive has now, as a poll in the background does.
  ///
  /// - Returns: whether the follower goes on.
  package func followInBackground() async -> Bool {
    do throws(ArchiveError) {
      try await inTurn { (follower) throws(ArchiveError) in
        try await follower.readAll(asks: false)
      }
      progress.withLock { ($0.stuckSince, $0.lastError) = (nil, nil) }
      return true
    } catch {
      if failure != nil || Task.isCancelled { return false }
      let isNew = progress.withLock { state in
        defer { state.lastError = error }
        guard state.stuckSince == nil else { return false }
        state.stuckSince = .now
        return true
      }
      if isNew { configuration.onEvent?(.stuck(error)) }
      return true
    }
  }

  /// Runs the body while no other call reads the archive.
  private func inTurn(
    _ body: (isolated Follower) async throws(ArchiveError) -> Void
  ) async throws(ArchiveError) {
    await turn.acquire()
    defer { turn.release() }
    if let failure { throw failure }
    do throws(ArchiveError) {
      try await body(self)
    } catch {
      await beginAgain(after: error)
      throw error
    }
  }

  /// Makes the machine go on from the last state that is durable, or ends the follower.
  private func beginAgain(after error: ArchiveError) async {
    await returnToDurable()
    switch error.code {
    // A cleaning may have removed a whole copy while it was read: the next poll takes a newer one.
    case .unavailable, .cancelled, .fenced, .stateUnavailable: if !hasClosedStore { return }
    case .store:
      // A full disk may have space later, and a suspended store is resumed.
      let passes = [.noSpace, .suspended].contains(error.storeError?.code)
      if passes, store.poison == nil, !hasClosedStore { return }
    default: break
    }
    // The state in memory may be one that never was: what is on the disk is the last good one. A
    // caller that waits for the end finds it.
    if store.poison != nil || hasClosedStore { await reopen() }
    await endFollowing(error)
  }

  /// Makes the machine go on from the last state that is durable. The next poll asks for a newer
  /// checkpoint: much may have happened since the last one.
  func returnToDurable() async {
    idlePolls = Self.pollsPerCheckpoint
    reader = HistoryReader(applied: CommitReference(durable), checkpoint: durable.checkpoint)
    needsCopy = false
    await forgetReceived()
  }

  /// Forgets what was received and belongs to no state.
  func forgetReceived() async {
    next = PendingState()
    do throws(StoreError) { try await store.forgetReceived() } catch {
      // The next opening, and the next life of the store, remove the files.
    }
  }

  private func reopen() async {
    let before = store
    do throws(StoreError) { try await before.close() } catch {
      // The poison of the store. The error with which the follower ends has the reason.
    }
    do throws(ArchiveError) {
      let store = try await Self.opened(path, storage, storeConfiguration)
      current.withLock { $0 = store }
    } catch {
      configuration.onEvent?(.ended(error))
    }
  }

  private func endFollowing(_ error: ArchiveError) async {
    guard failure == nil else { return }
    failure = error
    task?.cancel()
    progress.withLock { $0.failure = error }
    if error.code != .cancelled { configuration.onEvent?(.ended(error)) }
    let waiting = waiters.values
    waiters = [:]
    for waiter in waiting { waiter.continuation.resume(returning: error) }
  }

  /// Records the state that the store has now.
  func became(_ sequence: SequenceNumber, _ place: Manifest.Following, milliseconds: UInt64) {
    durable = place
    progress.withLock { state in
      (state.sequence, state.position) = (sequence, place.position)
      state.milliseconds = milliseconds
    }
    configuration.onEvent?(.followed(position: place.position, sequence: sequence))
    for (number, waiter) in waiters where waiter.sequence <= sequence {
      waiters[number] = nil
      waiter.continuation.resume(returning: nil)
    }
  }

  /// Records that the store has all that the archive had at a moment.
  func wasUpToDate(_ moment: ContinuousClock.Instant) {
    progress.withLock { $0.upToDateAt = moment }
  }

  /// Puts another store in the place of the present one.
  func replaceStore(by store: Store) { current.withLock { $0 = store } }
}

/// How far a follower is.
public struct Freshness: Sendable {
  /// The number of the last operation that the store has.
  public internal(set) var sequence: SequenceNumber
  /// The position of the commit with that operation.
  public internal(set) var position: UInt64
  /// When that commit was made, by the writer's clock: milliseconds since 1970; 0 when it is not
  /// known.
  public internal(set) var milliseconds: UInt64 = 0
  /// The last moment at which the store had all that the archive had; nil when it has not been so
  /// since the follower was opened. Commits that a cleaning has removed within the last 16 polls
  /// can be missing.
  public internal(set) var upToDateAt: ContinuousClock.Instant?
  /// The requests since the follower was opened, and their bytes.
  public internal(set) var traffic = ObjectTraffic()
  /// Since when requests fail; nil when the last poll succeeded.
  public internal(set) var stuckSince: ContinuousClock.Instant?
  /// The error of the last poll, if it failed.
  public internal(set) var lastError: ArchiveError?
  /// Why the follower has ended; nil while it follows.
  public internal(set) var failure: ArchiveError?

  init(sequence: SequenceNumber, position: UInt64) {
    (self.sequence, self.position) = (sequence, position)
  }
}
