import MoraineFormat
import MoraineStorage
import SystemPackage

/// Copies the files of a backup into the directory of a future store. Writes the manifest of the
/// store's new epoch under the name `RESTORING`, which no reader takes for a manifest.
struct RestoreWork: Sendable {
  let storage: any Storage
  let backup: FilePath
  let path: FilePath
  let sequence: SequenceNumber?
  let progress: (@Sendable (Store.Progress) -> Void)?

  /// What the manifest of the staged files knows of the state.
  enum Figures {
    /// All.
    case complete
    /// Not how many bytes of each segment are live. It has the digest.
    case ofUnknownLiveBytes
    /// Neither: the state ends earlier than that of the backup.
    case rewound
  }

  /// The state of the directory when all files are in it.
  struct Staged: Sendable {
    let directory: RestoringDirectory
    /// The same directory, without the translation of names.
    let base: any StorageDirectory
    let lock: DirectoryLock
    /// Whether the store is to follow an archive.
    var follows = false
    var report = RestoreReport()
  }

  func run() throws(StoreError) -> Staged {
    let (source, lock) = try Self.openSource(backup, of: storage, "there is no backup at this path")
    defer { lock?.unlock() }
    let old = try readManifest(source)
    let manifest = try beginEpoch(of: old, in: source)
    var staged = try Self.stage(path, on: storage)
    do throws(StoreError) {
      // Write this file first: it marks the files of an interrupted restore as such.
      try ManifestFile(staged.base).write(manifest, over: FileName.restoring)
      try transfer(manifest, from: source, into: staged.base, &staged.report)
      try storing { () throws(StorageError) in try staged.base.synchronize() }
    } catch {
      // Throw the first error: later errors are mostly its consequence.
      do throws(StoreError) { try Self.undo(staged) } catch {}
      throw error
    }
    return staged
  }

  /// The use of a directory from which a store is made.
  enum SourceUse {
    /// Programs that share the store may have it open: the directory is a backup, or the caller
    /// checks what it reads.
    case reading
    /// No other program has the store open until the lock is released. The directory stays as it
    /// is.
    case readingAlone
    /// The same as ``readingAlone``, for a directory that may be changed.
    case moving
  }

  /// Opens a directory from which a store is made. Returns it with its lock file, if it has one.
  ///
  /// - Throws: `.locked` when a program has the store open and the use does not permit that;
  ///   `.notAStore` with the message `missing` when there is no directory; `.io`.
  static func openSource(
    _ path: FilePath, of storage: any Storage, _ missing: String, for use: SourceUse = .reading
  ) throws(StoreError) -> (any StorageDirectory, (any StorageFile)?) {
    var configuration = Store.Configuration()
    configuration.isReadOnly = use != .moving
    let pipeline = CommitPipeline()
    defer { pipeline.stop() }
    var opener = Opener(
      storage: storage, path: path, configuration: configuration, pipeline: pipeline,
      observers: Observers())
    opener.readsAlone = use == .readingAlone
    let directory: (any StorageDirectory)?
    do throws(StorageError) { directory = try storage.openDirectory(path) } catch {
      throw opener.directoryError(error)
    }
    guard let directory else { throw StoreError(.notAStore, missing, file: path.string) }
    return (directory, try opener.takeLock(directory))
  }

  /// Opens and locks the directory of a future store, and removes the files of an earlier attempt.
  static func stage(_ path: FilePath, on storage: any Storage) throws(StoreError) -> Staged {
    let base = try storage.openTarget(path)
    let lock = try DirectoryLock(base)
    do throws(StoreError) {
      // A restore that was killed may have renamed a manifest, or removed files, without making
      // that durable.
      try storing { () throws(StorageError) in try base.synchronize() }
      try clear(base)
    } catch {
      lock.free()
      throw error
    }
    return Staged(directory: RestoringDirectory(base, lock), base: base, lock: lock)
  }

  private func readManifest(_ source: any StorageDirectory) throws(StoreError) -> Manifest {
    let manifest = try ManifestFile.read(source, DirectoryContents(source))
    guard let manifest else {
      throw StoreError(.notAStore, "there is no backup at this path", file: backup.string)
    }
    guard manifest.isClean else {
      throw StoreError(
        .notAStore, "this store was not closed in order; open it, and back it up",
        file: backup.string)
    }
    return manifest
  }

  /// Removes the files of an interrupted restore. Throws when the directory holds a store, and
  /// leaves that store alone.
  private static func clear(_ directory: any StorageDirectory) throws(StoreError) {
    let listing = try DirectoryContents(directory)
    guard !listing.hasStore || (listing.isRestoring && !listing.hasManifest) else {
      throw StoreError(
        .notAStore, "the directory already holds a store; restore into an empty one",
        file: directory.path.string)
    }
    try removeStaged(directory)
  }

  /// Removes all staged files, and releases the lock.
  static func undo(_ staged: Staged) throws(StoreError) {
    defer { staged.lock.free() }
    try removeStaged(staged.base)
  }

  /// Removes all staged files, and then `RESTORING`, which marks the other files as removable.
  /// `RESTORING` is removed only when the other removals are durable: otherwise a power failure
  /// could leave some of the files without the mark.
  static func removeStaged(_ directory: any StorageDirectory) throws(StoreError) {
    let listing = try DirectoryContents(directory)
    let names =
      listing.segments.keys.map(\.fileName) + listing.checkpoints.map(FileName.checkpoint)
      + [
        FileName.temporarySegment, Manifest.temporaryFileName, FileName.temporaryCheckpoint,
        FileName.reserve,
      ]
    try storing { () throws(StorageError) in
      for name in names { try directory.remove(name) }
      try directory.synchronize()
      try directory.remove(FileName.restoring)
    }
  }

  /// Writes the manifest under its final name; from then on the store exists. `RESTORING` marks all
  /// files as removable. It is removed only when the manifest's name is durable: after a crash, the
  /// removal of a name may have happened and an earlier renaming not.
  static func finish(_ staged: Staged) throws(StoreError) {
    defer { staged.lock.free() }
    do throws(StoreError) {
      let manifest = try ManifestFile.read(staged.directory, DirectoryContents(staged.directory))
      guard let manifest else {
        throw .corrupted("the file is missing", FileName.restoring, at: 0)
      }
      try ManifestFile(staged.base).write(manifest, over: Manifest.fileName)
    } catch {
      // After the renaming the store exists, and its files must stay.
      do throws(StoreError) {
        if try !DirectoryContents(staged.base).hasManifest { try removeStaged(staged.base) }
      } catch {}
      throw error
    }
    try storing { () throws(StorageError) in
      try staged.base.remove(FileName.restoring)
    }
  }

  private func transfer(
    _ manifest: Manifest, from source: any StorageDirectory, into base: any StorageDirectory,
    _ report: inout RestoreReport
  ) throws(StoreError) {
    // If the backup shared files with the store, damage to the store would damage the backup.
    let copier = SegmentCopier(source: source, target: base, mayLink: false)
    report.segmentCount = manifest.segments.count
    let total = manifest.segments.reduce(0) { $0 + $1.lengthBytes }
    report.totalBytes = total
    var done: UInt64 = 0
    for entry in manifest.segments {
      // Each byte counts twice: it is copied, and then read again and checked.
      let isShared = try copier.transfer(SegmentCopier.Piece(entry)) { count in
        done += UInt64(count)
        progress?(Store.Progress(completedBytes: done, totalBytes: 2 * total))
      }
      if isShared {
        report.sharedSegmentCount += 1
      } else {
        report.copiedBytes += entry.lengthBytes
      }
    }
    assert(done == total, "a restored store has other bytes than its segments")
  }
}

extension RestoreWork {
  /// Returns the first manifest of a restored store: the contents of the backup up to the requested
  /// sequence number, and a new epoch.
  func beginEpoch(
    of old: Manifest, in source: any StorageDirectory
  ) throws(StoreError) -> Manifest {
    var manifest = old
    if let sequence { try manifest.rewind(to: sequence, in: source, place: backup.string) }
    return manifest.ofNewLife
  }
}

extension Manifest {
  /// Leaves out all operations after a sequence number.
  ///
  /// - Parameter place: the directory of the backup, for errors.
  /// - Throws: `.sequenceUnavailable`.
  mutating func rewind(
    to sequence: SequenceNumber, in source: any StorageDirectory, place: String
  ) throws(StoreError) {
    guard sequence <= lastSequence else {
      throw StoreError(
        .sequenceUnavailable,
        "the backup ends at sequence \(lastSequence); it does not reach \(sequence)",
        file: place)
    }
    guard sequence >= compactedThrough else {
      throw StoreError(
        .sequenceUnavailable,
        "compaction has dropped replaced records up to sequence \(compactedThrough); "
          + "choose that sequence or a later one, or an older backup", file: place)
    }
    var kept: [Manifest.Segment] = []
    for entry in segments {
      if entry.recordCount == 0 || entry.lastSequence <= sequence {
        kept.append(entry)
      } else if entry.firstSequence <= sequence {
        let cut = try SegmentPrefix(
          of: entry.number.fileName, in: source, lengthBytes: Int(entry.lengthBytes),
          through: sequence)
        // A batch that continues after the sequence number is left out as a whole.
        if cut.recordCount > 0 { kept.append(cut.entry(entry)) }
      }
    }
    assert(
      kept.allSatisfy { $0.recordCount == 0 || $0.lastSequence <= sequence },
      "a segment reaches further than the restored state")
    segments = kept
    lastSequence = sequence
    digest = StateDigest()
  }
}

/// A view of a directory into which a store is being restored. The view shows the file `RESTORING`
/// as the manifest. The manifest keeps the name `RESTORING` until the whole store is checked.
final class RestoringDirectory: StorageDirectory {
  private let base: any StorageDirectory
  private let lock: DirectoryLock

  init(_ base: any StorageDirectory, _ lock: DirectoryLock) {
    self.base = base
    self.lock = lock
  }

  var path: FilePath { base.path }
  var identity: FileIdentity? { base.identity }

  private func name(_ name: String) -> String {
    name == Manifest.fileName ? FileName.restoring : name
  }

  func entries() throws(StorageError) -> [DirectoryEntry] {
    try base.entries().map { entry in
      var entry = entry
      if entry.name == FileName.restoring { entry.name = Manifest.fileName }
      return entry
    }
  }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    try base.createFile(self.name(name))
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    // The restore already holds the lock, through this same file.
    if name == FileName.lock { return lock.file }
    return try base.openFile(self.name(name), access)
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    try base.rename(name(source), to: name(target))
  }

  func renameIfAbsent(_ source: String, to target: String) throws(StorageError) -> Bool {
    try base.renameIfAbsent(name(source), to: name(target))
  }

  func remove(_ name: String) throws(StorageError) { try base.remove(self.name(name)) }
  func synchronize() throws(StorageError) { try base.synchronize() }
  func synchronizeParent() throws(StorageError) { try base.synchronizeParent() }
  func freeBytes() throws(StorageError) -> UInt64 { try base.freeBytes() }
  func creationBytes() throws(StorageError) -> UInt64 { try base.creationBytes() }
  func isInPlace() throws(StorageError) -> Bool { try base.isInPlace() }

  func extent(of name: String) throws(StorageError) -> FileExtent? {
    try base.extent(of: self.name(name))
  }

  func stamp(of name: String) throws(StorageError) -> FileStamp? {
    try base.stamp(of: self.name(name))
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool { try base.tryLock(shared: shared) }

  /// Does nothing. The restore owns the lock, and holds it longer than the store that it checks.
  func unlock() {}
}

/// A storage whose only directory is a ``RestoringDirectory``.
struct RestoringStorage: Storage {
  let directory: RestoringDirectory

  func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    directory
  }

  func createDirectory(_ path: FilePath) throws(StorageError) {}
}
