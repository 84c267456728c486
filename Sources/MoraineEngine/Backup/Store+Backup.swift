public import MoraineFormat
package import MoraineStorage
public import SystemPackage

extension Store {
  /// Copies the current state of the store into a directory. Reads, writes and compaction continue
  /// while it runs.
  ///
  /// The backup holds the state at one sequence number, whatever is written while it runs. The
  /// directory is created when it is missing. When it holds an earlier backup of this store, only
  /// segments that it lacks are copied, and the old backup remains valid until the new one is
  /// complete, even after a crash. Sealed segments are cloned or hard-linked where the file system
  /// can do that. Only a copy on another disk protects from the loss of this disk.
  ///
  /// A backup can be opened read-only, and it can be read, verified and dumped like a store. Only
  /// backups write to it. ``restore(_:to:through:onProgress:)`` makes a store from it.
  ///
  /// - Parameters:
  ///   - directory: the directory of the backup; its parent must exist.
  ///   - progress: called from time to time, with bytes.
  /// - Returns: a report. The backup is then on stable storage.
  /// - Throws: `.notAStore` when nothing was ever written to this store, or when the directory
  ///   holds something else; `.historyDiverged` when the directory holds a backup of another epoch
  ///   of the store, or of operations that this store has lost in a crash; `.locked`, `.corrupted`,
  ///   `.noSpace`, `.io`, `.closed`, `.suspended`.
  /// - Complexity: O(bytes of segments that are new to the directory), O(segments) where they can
  ///   be shared. The store itself waits for O(segments) only.
  @discardableResult
  public func backup(
    to directory: FilePath, onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> BackupReport {
    let isInMemory = opener.storage is MemoryStorage
    return try await backup(
      to: directory, on: isInMemory ? DiskStorage() : opener.storage, onProgress: progress)
  }

  /// Copies the store into the directory with this path, like ``backup(to:onProgress:)``.
  @discardableResult
  public func backup(
    to path: String, onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> BackupReport {
    try await backup(to: FilePath(path), onProgress: progress)
  }

  /// Copies the store like ``backup(to:onProgress:)``, to a directory of any storage.
  package func backup(
    to directory: FilePath, on storage: any Storage,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> BackupReport {
    let thread = SerialQueue(.lasting)
    var attempts = 0
    while true {
      let states = peers.readStateCount
      let work = BackupWork(
        source: try await backupSource(), storage: storage, path: directory, progress: progress)
      do throws(StoreError) {
        return try await thread.run { () throws(StoreError) in try work.run() }
      } catch {
        attempts += 1
        // Another process has compacted the store since. Start again with its current state.
        guard attempts < Self.rereadLimit, engine != nil,
          try await isOutdated(since: states, error)
        else {
          throw error
        }
      }
    }
  }

  /// Returns the state to copy. Its last number is on the disk too: after a kill, another operation
  /// gets a number that a failed append has used up in memory alone, and the backup would look like
  /// one of a later state.
  private func backupSource() async throws(StoreError) -> LogCut {
    if let cut = try await logCut() {
      let written = pipeline.knownManifest?.lastSequence
      // That of another process, which this one has read or follows.
      let isOther = isShared || opener.configuration.isReadOnly
      let followed = isOther ? engine?.log.manifest.lastSequence : nil
      guard let listed = [written, followed].compactMap({ $0 }).max() else { return cut }
      return cut.ending(at: listed)
    }
    throw StoreError(
      .notAStore, "nothing was written to this store yet; there is nothing to back up",
      file: opener.path.string)
  }
}

extension Store {
  /// Makes a store from a backup, or from a copy of a store that was closed in order.
  ///
  /// Before the store exists, every byte is read again at its new place and checked, together with
  /// the count and the digest of the live records. The store appears whole or not at all. An
  /// interrupted restore can be started again. The restored store has its own identity and a new
  /// epoch: a ``ChangeCursor`` of changes that the store does not have is always `.cursorDiverged`.
  ///
  /// - Parameters:
  ///   - backup: a directory that ``backup(to:onProgress:)`` has filled. The restore changes
  ///     nothing in it.
  ///   - directory: the directory of the new store. It must be missing, or contain no store; its
  ///     parent must exist.
  ///   - sequence: the last operation of a past state; nil for all operations. Every number since
  ///     the last compaction is allowed. A batch that continues after the number is left out as a
  ///     whole.
  ///   - progress: called from time to time, with bytes; each byte counts when it is copied and
  ///     when it is checked.
  /// - Throws: `.corrupted` with file and offset when the backup is damaged; `.notAStore` when
  ///   there is no backup, or when the directory already contains a store; `.sequenceUnavailable`;
  ///   `.locked`, `.noSpace`, `.io`, `.newerFormat`.
  /// - Complexity: O(bytes of the backup).
  @discardableResult
  public static func restore(
    _ backup: FilePath, to directory: FilePath, through sequence: SequenceNumber? = nil,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    try await restore(
      backup, to: directory, through: sequence, on: DiskStorage(), onProgress: progress)
  }

  /// Makes a store from the backup with this path, like ``restore(_:to:through:onProgress:)``.
  @discardableResult
  public static func restore(
    _ backup: String, to path: String, through sequence: SequenceNumber? = nil,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    try await restore(
      FilePath(backup), to: FilePath(path), through: sequence, onProgress: progress)
  }

  /// Makes a store like ``restore(_:to:through:onProgress:)``, on any storage.
  package static func restore(
    _ backup: FilePath, to directory: FilePath, through sequence: SequenceNumber? = nil,
    on storage: any Storage,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    let began = SystemClock.monotonicNanoseconds()
    let work = RestoreWork(
      storage: storage, backup: backup, path: directory, sequence: sequence, progress: progress)
    let thread = SerialQueue(.lasting)
    var staged = try await thread.run { () throws(StoreError) in try work.run() }
    do throws(StoreError) {
      try await check(&staged, directory, sequence == nil ? .complete : .rewound, progress)
    } catch {
      // Throw the first error: later errors are mostly its consequence.
      do throws(StoreError) {
        try await thread.run { [staged] () throws(StoreError) in try RestoreWork.undo(staged) }
      } catch {}
      throw error
    }
    try await thread.run { [staged] () throws(StoreError) in try RestoreWork.finish(staged) }
    staged.report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    return staged.report
  }

  /// Opens the staged files as the store that they will be, and reads every byte.
  static func check(
    _ staged: inout RestoreWork.Staged, _ path: FilePath, _ figures: RestoreWork.Figures,
    _ progress: (@Sendable (Store.Progress) -> Void)?
  ) async throws(StoreError) {
    let pipeline = CommitPipeline()
    var configuration = Store.Configuration()
    // The restored store keeps all records of the backup, including garbage.
    configuration.compaction = .manual
    configuration.expiryGrace = Store.Configuration.endlessGrace
    configuration.followsArchive = staged.follows
    var opener = try opener(
      RestoringStorage(directory: staged.directory), path, configuration, pipeline)
    opener.knowsDigest = figures != .rewound
    let store = try await open(opener)
    do throws(StoreError) {
      // For shortened segments, the manifest still has the figures of the backup.
      if figures != .complete { try await store.publishManifest() }
      let total = staged.report.totalBytes
      let report = try await store.verify { part in
        progress?(
          Store.Progress(completedBytes: total + part.completedBytes, totalBytes: 2 * total))
      }
      if let problem = report.problems.first { throw problem }
      staged.report.checkedBytes = report.checkedBytes
      staged.report.count = try await store.count()
      staged.report.sequence = try await store.statistics().lastSequence
    } catch {
      do throws(StoreError) { try await store.close() } catch {}
      throw error
    }
    try await store.close()
  }
}

/// The result of ``Store/backup(to:onProgress:)``.
public struct BackupReport: Sendable {
  /// Sequence number of the last operation in the backup.
  public internal(set) var sequence = SequenceNumber.none
  /// Number of segments in the backup.
  public internal(set) var segmentCount = 0
  /// Number of segments that an earlier backup had already copied.
  public internal(set) var keptSegmentCount = 0
  /// Number of segments whose bytes the file system shares with the store: clones or hard links.
  public internal(set) var sharedSegmentCount = 0
  /// Number of bytes that were copied, and not shared or kept.
  public internal(set) var copiedBytes: UInt64 = 0
  /// Number of bytes in all segments of the backup.
  public internal(set) var totalBytes: UInt64 = 0
  /// Duration of the backup in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}

/// The result of ``Store/restore(_:to:through:onProgress:)``.
public struct RestoreReport: Sendable {
  /// Sequence number of the last operation in the restored store.
  public internal(set) var sequence = SequenceNumber.none
  /// Number of keys in the restored store.
  public internal(set) var count = 0
  /// Number of segments in the restored store.
  public internal(set) var segmentCount = 0
  /// Number of segments whose bytes the file system shares with the backup: clones.
  public internal(set) var sharedSegmentCount = 0
  /// Number of bytes that were copied, and not shared.
  public internal(set) var copiedBytes: UInt64 = 0
  /// Number of bytes in all segments of the store.
  public internal(set) var totalBytes: UInt64 = 0
  /// Number of bytes that were read again and checked.
  public internal(set) var checkedBytes: UInt64 = 0
  /// Duration of the restore in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}
