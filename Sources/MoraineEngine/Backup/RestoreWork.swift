import MoraineFormat
import MoraineStorage
import SystemPackage

/// Puts the files of a backup into a directory where a store is to be, and the manifest of a new
/// life of that store under a name that is not a manifest's yet.
struct RestoreWork: Sendable {
  let storage: any Storage
  let backup: FilePath
  let path: FilePath
  let sequence: SequenceNumber?
  let progress: (@Sendable (Progress) -> Void)?

  /// What is there when the files are.
  struct Staged: Sendable {
    let directory: RestoringDirectory
    /// The directory by its own names.
    let base: any StorageDirectory
    let lock: DirectoryLock
    var report = RestoreReport()
  }

  func run() throws(StoreError) -> Staged {
    let (source, lock) = try Self.openSource(backup, of: storage, "there is no backup at this path")
    defer { lock?.unlock() }
    let old = try readManifest(source)
    let manifest = try beginEpoch(of: old, in: source)
    var staged = try Self.stage(path, on: storage)
    do throws(StoreError) {
      // First, so that what an interrupted restore leaves is known for what it is.
      try ManifestFile(staged.base).write(manifest, over: FileName.restoring)
      try transfer(manifest, from: source, into: staged.base, &staged.report)
      try storing { () throws(StorageError) in try staged.base.synchronize() }
    } catch {
      // What went wrong says more than what goes wrong with cleaning up behind it.
      do throws(StoreError) { try Self.undo(staged) } catch {}
      throw error
    }
    return staged
  }

  /// A directory from which a store is made, with its lock, if it has one.
  static func openSource(
    _ path: FilePath, of storage: any Storage, _ missing: String
  ) throws(StoreError) -> (any StorageDirectory, (any StorageFile)?) {
    var configuration = Configuration()
    configuration.isReadOnly = true
    let pipeline = CommitPipeline()
    defer { pipeline.stop() }
    let opener = Opener(
      storage: storage, path: path, configuration: configuration, pipeline: pipeline,
      observers: Observers())
    let directory: (any StorageDirectory)?
    do throws(StorageError) { directory = try storage.openDirectory(path) } catch {
      throw opener.directoryError(error)
    }
    guard let directory else { throw StoreError(.notAStore, missing, file: path.string) }
    return (directory, try opener.takeLock(directory))
  }

  /// A directory in which a store will be, locked, and with nothing of an earlier attempt.
  static func stage(_ path: FilePath, on storage: any Storage) throws(StoreError) -> Staged {
    let base = try storage.openTarget(path)
    let lock = try DirectoryLock(base)
    do throws(StoreError) {
      // A restore that died may have renamed a manifest, or removed files, and not made that
      // durable.
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

  /// Removes what an interrupted restore has left; a store that is there stays.
  private static func clear(_ directory: any StorageDirectory) throws(StoreError) {
    let listing = try DirectoryContents(directory)
    guard !listing.hasStore || (listing.isRestoring && !listing.hasManifest) else {
      throw StoreError(
        .notAStore, "the directory already holds a store; restore into an empty one",
        file: directory.path.string)
    }
    try removeStaged(directory)
  }

  /// Leaves nothing of what was put there.
  static func undo(_ staged: Staged) throws(StoreError) {
    defer { staged.lock.free() }
    try removeStaged(staged.base)
  }

  /// Removes all but `RESTORING`, which says that the rest may be removed, and then that: only when
  /// the rest is gone for good. Otherwise a power failure could leave the rest without it.
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

  /// Puts the manifest in its place; then there is a store. The word that all may be removed goes
  /// when that is durable: the removal of a name can outlive a crash that its renaming does not.
  static func finish(_ staged: Staged) throws(StoreError) {
    defer { staged.lock.free() }
    do throws(StoreError) {
      let manifest = try ManifestFile.read(staged.directory, DirectoryContents(staged.directory))
      guard let manifest else {
        throw .corrupted("the file is missing", FileName.restoring, at: 0)
      }
      try ManifestFile(staged.base).write(manifest, over: Manifest.fileName)
    } catch {
      // Once it was renamed, the store is there.
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
    // A backup that has files in common with the store would be damaged when the store is.
    let copier = SegmentCopier(source: source, target: base, mayLink: false)
    report.segmentCount = manifest.segments.count
    let total = manifest.segments.reduce(0) { $0 + $1.lengthBytes }
    report.totalBytes = total
    var done: UInt64 = 0
    for entry in manifest.segments {
      // What is copied is read once more to be checked.
      let isShared = try copier.transfer(SegmentCopier.Piece(entry)) { count in
        done += UInt64(count)
        progress?(Progress(completedBytes: done, totalBytes: 2 * total))
      }
      if isShared {
        report.sharedSegmentCount += 1
      } else {
        report.copiedBytes += entry.lengthBytes
      }
    }
  }
}

extension RestoreWork {
  /// The manifest that a restored store begins with: what the backup holds, up to the number that
  /// was asked for, and then a new epoch. Changes of the old one that came later are no part of
  /// this store's history, even where their numbers come again.
  func beginEpoch(
    of old: Manifest, in source: any StorageDirectory
  ) throws(StoreError) -> Manifest {
    var manifest = old
    if let sequence { try rewind(&manifest, to: sequence, in: source) }
    manifest.isBackup = false
    manifest.instanceID = Identifier(low: SystemRandom.number(), high: SystemRandom.number())
    manifest.forgetCuts()
    manifest.epoch += 1
    manifest.generation += 1
    manifest.createdMilliseconds = SystemClock.wallMilliseconds()
    manifest.epochs.append(
      Manifest.Epoch(
        epoch: manifest.epoch,
        firstSequence: SequenceNumber(rawValue: manifest.lastSequence.rawValue + 1),
        instanceID: manifest.instanceID))
    return manifest
  }

  private func rewind(
    _ manifest: inout Manifest, to sequence: SequenceNumber, in source: any StorageDirectory
  ) throws(StoreError) {
    guard sequence <= manifest.lastSequence else {
      throw StoreError(
        .sequenceUnavailable,
        "the backup ends at sequence \(manifest.lastSequence); it does not reach \(sequence)",
        file: backup.string)
    }
    guard sequence >= manifest.compactedThrough else {
      throw StoreError(
        .sequenceUnavailable,
        "compaction has dropped replaced records up to sequence \(manifest.compactedThrough); "
          + "choose that sequence or a later one, or an older backup", file: backup.string)
    }
    var kept: [Manifest.Segment] = []
    for entry in manifest.segments {
      if entry.recordCount == 0 || entry.lastSequence <= sequence {
        kept.append(entry)
      } else if entry.firstSequence <= sequence {
        let cut = try SegmentPrefix(
          of: entry.number.fileName, in: source, lengthBytes: Int(entry.lengthBytes),
          through: sequence)
        // Of a batch that goes beyond the number, nothing.
        if cut.recordCount > 0 { kept.append(cut.entry(entry)) }
      }
    }
    manifest.segments = kept
    manifest.lastSequence = sequence
    manifest.digest = StateDigest()
  }
}
