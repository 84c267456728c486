import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// Opens a store: directory, lock, manifest, replay, classification of the tail, repair, in this
/// order. An opening may be killed at any point and run again.
@usableFromInline struct Opener: Sendable {
  let storage: any Storage
  let path: FilePath
  let configuration: Store.Configuration
  let pipeline: CommitPipeline
  let observers: Observers
  /// Time for which other processes of a shared store may write before this one can join them.
  var patienceNanoseconds = SharedLink.patienceNanoseconds

  /// Whether the manifest of a store that was closed cleanly contains the store's digest.
  var knowsDigest = true

  /// Whether a lock that a reader takes keeps all others out, also other readers, as far as the
  /// file system can do it.
  var readsAlone = false
  /// The history that the manifest must continue: that of a store which was suspended. Nil for a
  /// store that was not open before.
  var left: StoreHistory?

  /// Whether the store is open for writing, and in this process only.
  @usableFromInline let isAlone: Bool

  init(
    storage: any Storage, path: FilePath, configuration: Store.Configuration,
    pipeline: CommitPipeline,
    observers: Observers
  ) {
    self.storage = storage
    self.path = path
    self.configuration = configuration
    self.pipeline = pipeline
    self.observers = observers
    isAlone = configuration.isAlone
  }

  /// Time for which an opening waits for a store of this process that is being closed or released.
  static let leavingPatienceNanoseconds: UInt64 = 10_000_000_000

  /// - Parameter creating: whether to create the store when it does not exist.
  /// - Returns: nil when the store does not exist and is not to be created.
  func open(creating: Bool) throws(StoreError) -> EngineState? {
    let began = SystemClock.monotonicNanoseconds()
    guard let directory = try openDirectory(creating: creating) else { return nil }
    let first = try DirectoryContents(directory)
    guard first.hasStore || creating else {
      guard configuration.createIfMissing else { throw notAStore() }
      try checkWritable()
      return nil
    }
    try checkWritable()
    try checkUseBeforeLocking(directory)
    let lock = try takeLock(directory)
    if configuration.isReadOnly {
      // The lock is held only during the opening, so that no writer recovers, creates or compacts
      // the store. Later writers may change the store: the files that this reader uses stay mapped
      // or open.
      defer { lock?.unlock() }
      return try openForReading(directory, nil, began)
    }
    do throws(StoreError) {
      if isShared { return try openShared(directory, lock, began) }
      try synchronizeNames(of: directory)
      // The directory may have changed since it was listed without the lock.
      return try openAlone(directory, lock, try DirectoryContents(directory), began)
    } catch {
      pipeline.endWatch()
      // The caller may try again at once.
      lock?.unlock()
      throw error
    }
  }

  /// Opens the store on a thread of the pool. The opening may have to wait for a store of this
  /// process that is being closed, which needs threads. In a shared store it may wait for another
  /// writer, up to the patience. The writer that has the lock may be in this process and need
  /// threads of the other crews.
  func openWithoutBlocking(creating: Bool) async throws(StoreError) -> EngineBox {
    let mayWait = isShared || configuration.isReadOnly || StorePhase.isAnyLeaving
    return try await SerialQueue(mayWait ? .lasting : .brief).run { () throws(StoreError) in
      EngineBox(try open(creating: creating))
    }
  }

  /// Makes the names in the directory durable, and the name of the directory: a process that died
  /// may have left names that a power failure would undo. All files that are created, removed or
  /// trusted after this depend on these names.
  func synchronizeNames(of directory: any StorageDirectory) throws(StoreError) {
    try storing { () throws(StorageError) in
      try directory.synchronizeParent()
      try directory.synchronize()
    }
  }

  /// Opens a store that no other process changes during the opening.
  func openAlone(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ listing: DirectoryContents,
    _ began: UInt64, link: SharedLink? = nil
  ) throws(StoreError) -> EngineState {
    let manifest = try ManifestFile.read(directory, listing)
    try checkUse(manifest)
    // Only now: a store that this program does not understand stays as it is, to the last byte.
    try nameHolder(in: lock)
    guard let manifest else { return try createStore(directory, lock, listing, began, link) }
    return try recover(directory, lock, listing, manifest, began, link: link)
  }

  /// Recovers the store that a manifest describes: with the newest checkpoint, or, when that
  /// contradicts the log, without one.
  ///
  /// - Parameters:
  ///   - link: the link to the other processes that have the store open.
  ///   - following: how far to read the log that those processes are writing.
  func recover(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ listing: DirectoryContents,
    _ manifest: Manifest, _ began: UInt64, link: SharedLink? = nil,
    following: SharedPage.Publication? = nil
  ) throws(StoreError) -> EngineState {
    var problem: StoreError?
    let checkpoint = loadCheckpoint(directory, listing, manifest, &problem)
    func recover(beginningWith checkpoint: Checkpoint?) throws(StoreError) -> EngineState {
      let recovery = Recovery(
        listing: listing, opener: self, checkpoint: checkpoint, following: following)
      return try run(recovery, directory, lock, manifest, began, link)
    }
    var state: EngineState
    do throws(StoreError) {
      state = try recover(beginningWith: checkpoint)
    } catch {
      // The checkpoint is never trusted more than the log: the log without it is authoritative.
      guard let checkpoint, error.code == .corrupted else { throw error }
      problem = contradiction(error, of: checkpoint.number)
      state = try recover(beginningWith: nil)
    }
    state.report.checkpointProblem = problem
    // Also a checkpoint that could not be used: the next one replaces it.
    state.checkpointNames = checkpoint.map { [FileName.checkpoint($0.number)] } ?? []
    return state
  }

  /// Returns the problem of a checkpoint with which the log could not be replayed. The error may
  /// name a file of the log, and ask for a backup: the replay without the checkpoint decides on the
  /// log.
  private func contradiction(
    _ error: StoreError, of checkpoint: SegmentNumber
  ) -> StoreError {
    if error.file?.hasSuffix(FileName.checkpointExtension) == true { return error }
    return .indexDamaged(
      "the index checkpoint contradicts \(error.file ?? "the log")",
      FileName.checkpoint(checkpoint))
  }

  /// A checkpoint, and the number in its file's name.
  typealias Checkpoint = (number: SegmentNumber, pages: CheckpointPages)

  private func run(
    _ recovery: Recovery, _ directory: any StorageDirectory, _ lock: (any StorageFile)?,
    _ manifest: Manifest, _ began: UInt64, _ link: SharedLink?
  ) throws(StoreError) -> EngineState {
    var state = try EngineState(
      directory: directory, lock: lock, manifest: manifest, configuration: configuration,
      pipeline: pipeline, observers: observers)
    state.watchOver(link)
    state.checkpointNames = recovery.checkpointNumber.map { [FileName.checkpoint($0)] } ?? []
    var report = RecoveryReport()
    report.foreignFiles = recovery.listing.foreign
    try recovery.run(&state, &report)
    report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    state.report = report
    return state
  }

  /// Creates the first manifest of a new store.
  private func createStore(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ listing: DirectoryContents,
    _ began: UInt64, _ link: SharedLink?
  ) throws(StoreError) -> EngineState {
    var state = try EngineState(
      directory: directory, lock: lock, manifest: newManifest(), configuration: configuration,
      pipeline: pipeline, observers: observers)
    if configuration.ordersKeyspaces {
      state.log.manifest.order(0)
      state.live.trees.order(0)
    }
    try ManifestPublisher(directory: directory, pipeline: pipeline).publish(state.log.manifest)
    state.watchOver(link)
    state.report.foreignFiles = listing.foreign
    state.report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
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

  /// Throws where nothing can be written, so that an opening for writing fails, and not the first
  /// write. The check creates nothing.
  private func checkWritable() throws(StoreError) {
    if configuration.isReadOnly { return }
    try storing { () throws(StorageError) in try storage.checkWritable(path) }
  }

  func directoryError(_ error: StorageError) -> StoreError {
    switch error.errno {
    case .notDirectory, .tooManySymbolicLinkLevels:
      StoreError(
        .notAStore, "the path is a file or a symbolic link; give the path of the store's directory",
        file: path.string, errno: error.errno)
    default: StoreError(error)
    }
  }

  /// Checks that a backup is opened for reading only. Checks that a store which follows an archive
  /// is opened by the code that follows the archive, or for reading only.
  func checkUse(_ manifest: Manifest?) throws(StoreError) {
    try checkHistory(manifest)
    if configuration.isReadOnly { return }
    if manifest?.isBackup == true { throw backupError() }
    let isFollower = manifest?.following != nil
    // A store that is resumed may have been promoted since it was opened. Relaxed: as at the flag.
    let follows =
      left == nil ? configuration.followsArchive : pipeline.isFollowing.load(ordering: .relaxed)
    if isFollower == follows { return }
    throw StoreError(
      .readOnly,
      isFollower
        ? "this store follows an archive; promote it, or open it read-only"
        : "this store follows no archive", file: path.string)
  }

  /// Checks that a store which was suspended finds its own files again, before it changes them.
  ///
  /// - Throws: `.storeReplaced`, and then the pipeline is poisoned: the places of iterators and the
  ///   numbers that it knows to be durable belong to another history.
  func checkHistory(_ manifest: Manifest?) throws(StoreError) {
    guard let left, let manifest, !left.isContinued(by: manifest) else { return }
    let error = StoreError(
      .storeReplaced,
      "another store, or an older state of this one, has replaced the store while it was "
        + "suspended. Close it, and open the path again to use the files that exist now",
      file: Manifest.fileName)
    pipeline.poison(error)
    throw error
  }

  private func backupError() -> StoreError {
    StoreError(
      .readOnly, "this is a backup; restore it into another directory, or open it read-only",
      file: path.string)
  }

  private func notAStore() -> StoreError {
    StoreError(.notAStore, "there is no Moraine store at this path", file: path.string)
  }
}

extension Opener {
  /// Takes the kernel's lock. The lock ends with the process, and the content of the file is only a
  /// hint.
  ///
  /// - Returns: nil for a reader of a copy without a lock file: the reader changes nothing. If it
  ///   keeps others out, the directory alone is locked then, until its `unlock()` or its end.
  func takeLock(_ directory: any StorageDirectory) throws(StoreError) -> (any StorageFile)? {
    let file = try lockFile(directory)
    if file == nil, !readsAlone { return nil }
    var isTaken = try tryLock(file, directory)
    if !isTaken { isTaken = try waitForOwnStore(file, directory) }
    if isTaken {
      guard let file else { return nil }
      return held(file, directory)
    }
    throw lockedError(file, directory)
  }

  /// Returns the lock, which is held, as one object. The directory of a shared store keeps its
  /// descriptor: other processes replace the manifest, so the lock on the directory cannot move to
  /// the manifest.
  private func held(_ file: any StorageFile, _ directory: any StorageDirectory) -> HeldLock {
    if configuration.isReadOnly {
      // A reader holds the lock only while it opens the store.
      directory.allowParking(with: file, standIn: nil)
      file.allowParking()
    } else if !isShared {
      directory.allowParking(with: file, standIn: Manifest.fileName)
    }
    return HeldLock(file, directory, LockUse(observers.phase))
  }

  /// Takes the lock on `LOCK`, and the same lock on the directory itself: deleting `LOCK` then lets
  /// no second writer in.
  ///
  /// - Parameter file: nil when `LOCK` is missing and nothing may be created.
  /// - Returns: false when another opening holds one of them; neither is taken then.
  private func tryLock(
    _ file: (any StorageFile)?, _ directory: any StorageDirectory
  ) throws(StoreError) -> Bool {
    let shared = (configuration.isReadOnly || isShared) && !readsAlone
    return try storing { () throws(StorageError) -> Bool in
      if let file {
        guard try tryLock(file, shared: shared) else { return false }
      }
      var isTaken = false
      defer { if !isTaken { file?.unlock() } }
      isTaken = try directory.tryLockIfSupported(shared: shared, standIn: Manifest.fileName)
      return isTaken
    }
  }

  private func tryLock(_ file: any StorageFile, shared: Bool) throws(StorageError) -> Bool {
    do throws(StorageError) {
      return try file.tryLock(shared: shared)
    } catch {
      // A network file system locks a file exclusively only where it is open for writing. A shared
      // lock still keeps out each program that does not share the store.
      guard readsAlone, error.errno == .badFileDescriptor else { throw error }
      return try file.tryLock(shared: true)
    }
  }

  /// Waits while a store of this process that is being closed or released holds the lock, or while
  /// a task of it works in the background: the program may no longer use that store, and cannot see
  /// that it is still at work. Blocks the calling thread, for ten seconds at most.
  ///
  /// - Returns: whether the lock is taken now.
  private func waitForOwnStore(
    _ file: (any StorageFile)?, _ directory: any StorageDirectory
  ) throws(StoreError) -> Bool {
    guard let identity = directory.identity else { return false }
    let began = SystemClock.monotonicNanoseconds()
    var pause: UInt64 = 5_000
    // Ends with this function: a store that stays in use does its work again.
    var wait: StorePhase.TaskWait?
    defer { wait?.end() }
    while true {
      // The holder is read before the attempt: the loop waits once more for a store that leaves in
      // between.
      let holder = StorePhase.holder(of: identity)
      if try tryLock(file, directory) { return true }
      guard holder == .leaving || holder == .busy,
        SystemClock.monotonicNanoseconds() - began < Self.leavingPatienceNanoseconds
      else { return false }
      if holder == .busy, wait == nil { wait = StorePhase.awaitTasks(of: identity) }
      SystemClock.sleep(nanoseconds: pause)
      pause = min(pause * 2, 1_000_000)
    }
  }

  private func lockFile(_ directory: any StorageDirectory) throws(StoreError) -> (any StorageFile)?
  {
    guard configuration.isReadOnly else { return try Self.makeLockFile(directory) }
    return try storing { () throws(StorageError) -> (any StorageFile)? in
      do throws(StorageError) {
        // A network file system locks a file exclusively only where it is open for writing.
        if readsAlone { return try directory.openFile(FileName.lock, .readWrite) }
      } catch {
        guard error.refusesWriting else { throw error }
      }
      return try directory.openFile(FileName.lock, .read)
    }
  }

  /// Opens the file that the lock is on, and creates it when it is missing.
  static func makeLockFile(
    _ directory: any StorageDirectory
  ) throws(StoreError) -> any StorageFile {
    try storing { () throws(StorageError) in try directory.openOrCreateFile(FileName.lock) }
  }

  func nameHolder(in lock: (any StorageFile)?) throws(StoreError) {
    guard let lock, !configuration.isReadOnly, !isShared else { return }
    let text = Array("\(CurrentProcess.id)\n".utf8)
    do throws(StorageError) {
      try lock.truncate(to: 0)
      try text.withBytes { (raw) throws(StorageError) in try lock.write(raw, at: 0) }
    } catch {
      // The number is a hint for people. A full disk must not prevent the opening of a store that
      // is to be cleaned.
      guard error.isNoSpace else { throw StoreError(error) }
    }
  }

  private func lockedError(
    _ file: (any StorageFile)?, _ directory: any StorageDirectory
  ) -> StoreError {
    switch directory.identity.map(StorePhase.holder) ?? .elsewhere {
    case .elsewhere: break
    case .inUse, .busy:
      return StoreError(
        .locked, "this process has the store open already; use that store, or close it first",
        file: path.string)
    case .leaving:
      return StoreError(
        .locked, "this process is still closing the store; await close() before opening it again",
        file: path.string)
    }
    var text = [UInt8](repeating: 0, count: 20)
    var count = 0
    text.withUnsafeMutableBytes { target in
      // The lock is held, whatever the file says, and also when the file cannot be read.
      do throws(StorageError) { count = try file?.read(into: target, at: 0) ?? 0 } catch {}
    }
    // The number may be that of an earlier holder: readers and sharing processes write none.
    let name = String(decoding: text[..<count].prefix { $0 != 10 }, as: UTF8.self)
    let holder = Int32(name).flatMap { CurrentProcess.canSee($0) ? $0 : nil }
    let hint = holder.map { " (probably in process \($0))" } ?? ""
    return StoreError(
      .locked, "the store is open elsewhere\(hint); close it there first", file: path.string)
  }
}

/// The lock on `LOCK` and the lock on the directory, which are released together.
final class HeldLock: StorageFile {
  private let file: any StorageFile
  private let directory: any StorageDirectory
  /// Must be the last stored property: see ``LockUse``.
  private let use: LockUse

  init(_ file: any StorageFile, _ directory: any StorageDirectory, _ use: LockUse) {
    self.file = file
    self.directory = directory
    self.use = use
  }

  /// The objects may outlive the lock: the directory's in a snapshot, and the file's where its
  /// descriptor is just being parked.
  deinit {
    file.unlock()
    directory.unlock()
  }

  func unlock() {
    file.unlock()
    directory.unlock()
    use.end()
  }

  var name: String { file.name }
  var identity: FileIdentity { file.identity }
  func lengthBytes() throws(StorageError) -> UInt64 { try file.lengthBytes() }

  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int { try file.read(into: target, at: offset) }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    try file.write(bytes, at: offset)
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    try file.allocate(from: start, to: end)
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    try file.truncate(to: lengthBytes)
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) { try file.synchronize(scope) }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
    try file.map(lengthBytes: lengthBytes, access)
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool { try file.tryLock(shared: shared) }
}

extension Opener {
  func newManifest() -> Manifest {
    var manifest = Manifest(
      storeID: StoreIdentifier(low: SystemRandom.number(), high: SystemRandom.number()),
      instanceID: StoreIdentifier(low: SystemRandom.number(), high: SystemRandom.number()),
      hashKey: HashKey(k0: SystemRandom.number(), k1: SystemRandom.number()))
    manifest.generation = 1
    manifest.createdMilliseconds = SystemClock.wallMilliseconds()
    manifest.epochs = [
      Manifest.Epoch(
        epoch: 1, firstSequence: SequenceNumber(rawValue: 1), instanceID: manifest.instanceID)
    ]
    return manifest
  }
}
