import MoraineFormat
package import MoraineStorage
import Synchronization
public import SystemPackage

/// A key-value store on an append-only log: the one writer of its directory.
///
/// Every operation is one hop to the actor. Reads verify a checksum; writes append, and wait for
/// the disk only as their ``Durability`` says.
///
/// Whatever throws says `.closed` after ``close()``, `.suspended` between ``suspend()`` and
/// ``resume()``, `.usedAfterFork` in a forked child, and in a shared store `.locked` when another
/// process has been writing for a minute; methods list what they throw besides.
public actor Store {
  @usableFromInline nonisolated let opener: Opener

  /// Nil until there is a store on disk: the first write makes it.
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
  var sharing = SharingState()
  var readers = ReaderState()
  /// The last of all stored properties: see ``StoreEnding``.
  var lifecycle: StoreLifecycle

  /// Opens the store in a directory; blocks the calling thread for the time it takes to read it.
  ///
  /// Where there is none, nothing is created before the first write. While another `Store` of this
  /// process that has the directory is being closed or released, opening waits for that, for ten
  /// seconds at most.
  ///
  /// - Throws: `.locked`, `.corrupted`, `.newerFormat`, `.notAStore`, `.noSpace`; `.io`, also where
  ///   the store is opened for writing and its directory, or the directory that it is to be created
  ///   in, cannot be written; `.limitExceeded` when the system has no thread, descriptor or memory
  ///   for it, after a second at most.
  /// - Complexity: O(segments + bytes of the log behind the last index checkpoint).
  public init(
    at directory: FilePath, configuration: Configuration = .init()
  ) throws(StoreError) {
    try self.init(on: DiskStorage(), at: directory, configuration: configuration)
  }

  /// Opens the store in the directory with this path. Otherwise as ``init(at:configuration:)``.
  public init(
    at path: String, configuration: Configuration = .init()
  ) throws(StoreError) {
    try self.init(at: FilePath(path), configuration: configuration)
  }

  /// Opens the store on any storage: the disk, memory, or a simulated disk.
  package init(
    on storage: any Storage, at directory: FilePath, configuration: Configuration = .init()
  ) throws(StoreError) {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    try storing { () throws(StorageError) in try ThreadPool.current.secure() }
    let opener = try Self.opener(storage, directory, configuration, pipeline)
    let state = try opener.open(creating: false)
    self.init(opener: opener, pipeline: pipeline, state: state)
  }

  /// - Parameter refusal: why there is no state, and never will be.
  init(
    opener: Opener, pipeline: CommitPipeline, state: consuming EngineState?,
    refusal: StoreError? = nil
  ) {
    self.opener = opener
    checkpoints = CheckpointState(names: state?.checkpointNames ?? [])
    let page = state?.link?.page
    let followed = state?.followed ?? (nonce: 0, version: 0)
    if let events = pipeline.events, let report = state?.report { events.tell(.opened(report)) }
    if page != nil { state!.tellOfOthers() }
    let observers = opener.observers
    if let last = state?.lastSequence { observers.openedSequence.store(last, ordering: .releasing) }
    lifecycle = StoreLifecycle(refusal, StoreEnding(observers.life))
    #if DEBUG
      engine = state
    #else
      cell = EngineCell(state)
    #endif
    if let page {
      (sharing.nonce, sharing.seenVersion) = followed
      pipeline.sharedPage.withLock { $0 = page }
      observers.pins.share(page)
      observers.others.follow(page)
      observers.others.followed(followed.version)
    }
    if refusal != nil {
      observers.life.beginClosing()
      observers.setUsable(false)
    }
    observers.life.opened(self)
  }

  deinit { pipeline.stop() }

  static func opener(
    _ storage: any Storage, _ directory: FilePath, _ configuration: Configuration,
    _ pipeline: CommitPipeline
  ) throws(StoreError) -> Opener {
    CurrentProcess.watchForks()
    let path = try storing { () throws(StorageError) in try storage.absolute(directory) }
    return Opener(
      storage: storage, path: path, configuration: configuration.bounded(),
      pipeline: pipeline, observers: Observers())
  }

  /// Opens the store off the caller's thread. Otherwise as ``init(at:configuration:)``.
  public static func open(
    at directory: FilePath, configuration: Configuration = .init()
  ) async throws(StoreError) -> Store {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    return try await open(try opener(DiskStorage(), directory, configuration, pipeline))
  }

  /// Opens the store in the directory with this path, off the caller's thread. Otherwise as
  /// ``init(at:configuration:)``.
  public static func open(
    at path: String, configuration: Configuration = .init()
  ) async throws(StoreError) -> Store {
    try await open(at: FilePath(path), configuration: configuration)
  }

  /// Opens on a thread of the pool.
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

  /// Whether the store is open for writing and for this process alone: a read needs nothing but
  /// what this process knows.
  @inlinable nonisolated var isAlone: Bool {
    @inline(__always) get { opener.isAlone }
  }

  var isClosed: Bool { lifecycle.isClosed }

  var isSuspended: Bool { lifecycle.isSuspended }

  /// Why nothing can be done with a store that is closed.
  var closedError: StoreError {
    lifecycle.refusal ?? StoreError(.closed, "the store was closed; open it again")
  }

  /// Throws where the store could not be opened; for calls that end without an error in a store
  /// that was closed.
  func throwRefusal() throws(StoreError) {
    if let refusal = lifecycle.refusal { throw refusal }
  }

  /// Why the last index checkpoint was not written, when it was not; opening then takes longer.
  public var checkpointFailure: StoreError? { checkpoints.failure }

  /// Why the last compaction in the background ended early, when it did; the next one begins when a
  /// segment is sealed. Or what is damaged: such a segment is left as it is until the store is
  /// reopened, and the others are compacted all the same.
  public var compactionFailure: StoreError? { compaction.failure }
}

extension Store {
  /// A store that could not be opened: whatever can throw throws the error, and nothing is kept.
  package static func refusing(_ error: StoreError) -> Store {
    let pipeline = CommitPipeline()
    let opener = Opener(
      storage: MemoryStorage(), path: "/memory", configuration: Configuration(),
      pipeline: pipeline, observers: Observers())
    return Store(opener: opener, pipeline: pipeline, state: nil, refusal: error)
  }

  /// A store that lives in memory and goes with its last reference: for tests and previews.
  ///
  /// It runs the same code as one on disk. It begins empty, so `isReadOnly` and `createIfMissing`
  /// have no meaning here and are not heeded.
  public static func inMemory(configuration: Configuration = .init()) -> Store {
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
  /// Waits until the store stops writing for good, because a failure left it unknown what the disk
  /// holds: for what supervises a store, and would rather end than run on without it.
  ///
  /// One such failure is that the files were deleted, moved or replaced (`.storeReplaced`). An idle
  /// store notices that within a second.
  ///
  /// - Returns: why; nil when the store was closed before, or when the task was cancelled.
  public nonisolated func waitUntilPoisoned() async -> StoreError? {
    await pipeline.waitUntilPoisoned()
  }

  /// What has happened, for ``Configuration/onEvent``. Only where things are slow anyway.
  nonisolated func tell(_ event: @autoclosure () -> StoreEvent) {
    if let events = pipeline.events { events.tell(event()) }
  }

  func tellOpened() {
    guard engine != nil else { return }
    tell(.opened(engine!.report))
  }

  /// What closing or suspending interrupts has not failed; and what poisons was told as such.
  func tellCompactionFailed(_ error: StoreError) {
    if !isClosed, !isSuspended, !pipeline.hasPoison { tell(.compactionFailed(error)) }
  }

  /// One event for the many operations that may find the disk full before somebody frees it.
  func tellOutOfSpace(_ error: StoreError) {
    guard writing.beginsToLackSpace() else { return }
    tell(.outOfSpace(error))
  }
}
