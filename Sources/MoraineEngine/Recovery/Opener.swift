import MoraineFormat
import MoraineStorage
import SystemPackage

/// Opens a store: directory, lock, manifest, replay, judgement of the tail, repair, in this order.
/// May be killed at any point and run again.
struct Opener {
  let storage: any Storage
  let path: FilePath
  let configuration: Configuration
  let pipeline: CommitPipeline
  let observers: Observers
  /// How long other processes of a shared store may write before this one can join them.
  var patienceNanoseconds = SharedLink.patienceNanoseconds

  /// Whether the manifest of a store that was closed in order says what its digest is.
  var knowsDigest = true

  /// Whether the store is open for writing and for this process alone.
  @inline(__always)
  var isAlone: Bool { !isShared && !configuration.isReadOnly }

  static let lockName = "LOCK"
  /// How long an opening waits for a store of this process that is being closed or released.
  static let leavingPatienceNanoseconds: UInt64 = 10_000_000_000

  /// - Parameter creating: whether to make the store when there is none.
  /// - Returns: nil when there is no store and none is to be made.
  func open(creating: Bool) throws(StoreError) -> EngineState? {
    let began = Machine.monotonicNanoseconds()
    guard let directory = try openDirectory(creating: creating) else { return nil }
    let first = try Listing(directory)
    guard first.hasStore || creating else {
      guard configuration.createIfMissing else { throw notAStore() }
      try checkWritable()
      return nil
    }
    try checkWritable()
    let lock = try takeLock(directory)
    if configuration.isReadOnly {
      // Held only while it opens, so that no writer recovers, creates or compacts the store. Later
      // writers may do as they like; what this one reads stays mapped or open.
      defer { lock?.unlock() }
      return try openForReading(directory, nil, began)
    }
    do throws(StoreError) {
      if isShared { return try openShared(directory, lock, began) }
      try synchronizeNames(of: directory)
      // What was seen before the lock may have changed.
      return try openAlone(directory, lock, try Listing(directory), began)
    } catch {
      pipeline.endWatch()
      // The caller may try again at once.
      lock?.unlock()
      throw error
    }
  }

  /// Opens on a thread of the pool. A store of this process that is being closed may have to be
  /// waited for, which needs threads. Beside other processes that may take up to the patience, and
  /// those that have the writer's lock may be in this process and need threads of the other crews.
  func openWithoutBlocking(creating: Bool) async throws(StoreError) -> EngineBox {
    let mayWait = isShared || configuration.isReadOnly || StoreLife.isAnyLeaving
    return try await SerialQueue(mayWait ? .lasting : .brief).run { () throws(StoreError) in
      EngineBox(try open(creating: creating))
    }
  }

  /// Makes durable what names the directory shows, and its own: a process that died may have left
  /// some that a power failure would take back. What is created, removed or trusted after this
  /// stands on them.
  func synchronizeNames(of directory: any StorageDirectory) throws(StoreError) {
    try storing { () throws(StorageError) in
      try directory.synchronizeParent()
      try directory.synchronize()
    }
  }

  /// Opens what no other process changes meanwhile.
  func openAlone(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ listing: Listing,
    _ began: UInt64, link: SharedLink? = nil
  ) throws(StoreError) -> EngineState {
    let manifest = try Self.readManifest(directory, listing)
    if manifest?.isBackup == true, !configuration.isReadOnly { throw isBackup() }
    // Only now: a store that this program does not understand stays as it is, to the last byte.
    try nameHolder(in: lock)
    guard let manifest else { return try born(directory, lock, listing, began, link) }
    return try recovered(directory, lock, listing, manifest, began, link: link)
  }

  /// - Parameters:
  ///   - link: what ties the store to the other processes that have it open.
  ///   - following: how far to read what those are writing.
  func recovered(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ listing: Listing,
    _ manifest: Manifest, _ began: UInt64, link: SharedLink? = nil,
    following: SharedPage.Snapshot? = nil
  ) throws(StoreError) -> EngineState {
    var problem: StoreError?
    let checkpoint = loadCheckpoint(directory, listing, manifest, &problem)
    func recovered(_ checkpoint: Checkpoint?) throws(StoreError) -> EngineState {
      let recovery = Recovery(
        listing: listing, opener: self, checkpoint: checkpoint, following: following)
      return try self.recovered(directory, lock, manifest, recovery, began, link)
    }
    var state: EngineState
    do throws(StoreError) {
      state = try recovered(checkpoint)
    } catch {
      // It is never trusted over the log: what the log says without it counts.
      guard checkpoint != nil, error.code == .corrupted else { throw error }
      problem = error
      state = try recovered(nil)
    }
    state.report.checkpointProblem = problem
    // Also one that could not be used: the next takes its place.
    state.checkpointNames = checkpoint.map { [CheckpointFile.name($0.number)] } ?? []
    return state
  }

  /// A checkpoint, and the number in its file's name.
  typealias Checkpoint = (number: SegmentNumber, pages: CheckpointPages)

  private func recovered(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ manifest: Manifest,
    _ recovery: Recovery, _ began: UInt64, _ link: SharedLink?
  ) throws(StoreError) -> EngineState {
    var state = try EngineState(
      directory: directory, lock: lock, manifest: manifest, configuration: configuration,
      pipeline: pipeline, observers: observers)
    state.watchOver(link)
    state.checkpointNames = recovery.checkpointNumber.map { [CheckpointFile.name($0)] } ?? []
    var report = RecoveryReport()
    report.foreignFiles = recovery.listing.foreign
    try recovery.run(&state, &report)
    report.elapsedNanoseconds = Machine.monotonicNanoseconds() - began
    state.report = report
    return state
  }

  private func born(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ listing: Listing,
    _ began: UInt64, _ link: SharedLink?
  ) throws(StoreError) -> EngineState {
    var state = try EngineState(
      directory: directory, lock: lock, manifest: newManifest(), configuration: configuration,
      pipeline: pipeline, observers: observers)
    try ManifestPublisher(directory: directory, pipeline: pipeline).publish(state.manifest)
    state.watchOver(link)
    state.report.foreignFiles = listing.foreign
    state.report.elapsedNanoseconds = Machine.monotonicNanoseconds() - began
    return state
  }

  private func openDirectory(creating: Bool) throws(StoreError) -> (any StorageDirectory)? {
    do throws(StorageError) {
      if let directory = try storage.openDirectory(path) { return directory }
      if creating {
        try storage.createDirectory(path)
        return try storage.openDirectory(path)
      }
    } catch {
      throw directoryError(error)
    }
    guard configuration.createIfMissing else { throw notAStore() }
    try checkWritable()
    return nil
  }

  /// An opening for writing fails where nothing can be written, and not the first write. It creates
  /// nothing to find out.
  private func checkWritable() throws(StoreError) {
    if configuration.isReadOnly { return }
    try storing { () throws(StorageError) in try storage.checkWritable(path) }
  }

  func directoryError(_ error: StorageError) -> StoreError {
    switch error.errno {
    case .notDirectory, .tooManySymbolicLinkLevels:
      StoreError(
        .notAStore, "this path is a file or a symbolic link; name the store's own directory",
        file: path.string, errno: error.errno)
    default: StoreError(error)
    }
  }

  private func isBackup() -> StoreError {
    StoreError(
      .readOnly, "this is a backup; restore it into another directory, or open it read-only",
      file: path.string)
  }

  private func notAStore() -> StoreError {
    StoreError(.notAStore, "there is no Moraine store here", file: path.string)
  }
}
