import MoraineFormat
package import MoraineStorage
public import SystemPackage

extension Store {
  /// Copies the store as it is now into a directory, while reading, writing and compacting go on.
  ///
  /// What is copied is the state at one sequence number, whatever is written meanwhile. The
  /// directory is made when it is missing. When it has an earlier backup of this store, only
  /// segments that it lacks are copied, and the old backup is there until the new one is complete,
  /// whatever happens in between. Sealed segments are cloned or hard-linked where the file system
  /// can do that: a copy on another disk is what protects from the loss of this one.
  ///
  /// A backup can be opened read-only, and read, verified and dumped as a store; it is written to
  /// by backups alone. ``restore(_:to:through:_:)`` makes a store of it.
  ///
  /// - Parameters:
  ///   - directory: where to; its parent must exist.
  ///   - progress: called now and then, with bytes.
  /// - Returns: what was done. The backup is on stable storage.
  /// - Throws: `.notAStore` when nothing was ever written to this store, or when the directory
  ///   holds something else; `.historyDiverged` when it has a backup of another epoch of the store,
  ///   or of operations that this one has lost in a crash; `.locked`, `.corrupted`, `.noSpace`,
  ///   `.io`, `.closed`, `.suspended`.
  /// - Complexity: O(bytes of segments that are new to the directory), O(segments) where they can
  ///   be shared; O(segments) for the store, which waits for no more than that.
  @discardableResult
  public func backup(
    to directory: FilePath, _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> BackupReport {
    let isInMemory = opener.storage is MemoryStorage
    return try await backup(
      to: directory, on: isInMemory ? DiskStorage() : opener.storage, progress)
  }

  /// The same, to a directory of any storage.
  package func backup(
    to directory: FilePath, on storage: any Storage,
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> BackupReport {
    let thread = SerialQueue(.lasting)
    var attempts = 0
    while true {
      let work = BackupWork(
        source: try await backupSource(), storage: storage, path: directory, progress: progress)
      do throws(StoreError) {
        return try await thread.run { () throws(StoreError) in try work.run() }
      } catch {
        attempts += 1
        // Another process has compacted the store meanwhile: what is carried already counts.
        guard attempts < Self.rereadLimit, engine != nil, try await wasReplaced(error) else {
          throw error
        }
      }
    }
  }

  private func backupSource() async throws(StoreError) -> BackupSource {
    try await checkOpen()
    guard engine != nil else {
      throw StoreError(
        .notAStore, "nothing was written to this store yet; there is nothing to back up",
        file: opener.path.string)
    }
    return try BackupSource(&engine!, readers.live)
  }
}

extension Store {
  /// Makes a store of a backup, or of the copy of a store that was closed in order.
  ///
  /// Every byte is read again in its new place and checked, with the count and the digest of what
  /// is live, before there is a store there at all: it appears whole, or not. An interrupted
  /// restore can be begun again. The restored store has its own identity, and a new epoch: a
  /// ``ChangeCursor`` of changes that it does not have is `.cursorDiverged`, for ever.
  ///
  /// - Parameters:
  ///   - backup: a directory that ``backup(to:_:)`` has filled. Nothing in it is changed.
  ///   - directory: where the store will be: missing, or empty of stores; its parent must exist.
  ///   - sequence: the last operation to have, for a state in the past; nil for all there is. Any
  ///     number since the last compaction will do; of a batch that goes beyond it, nothing is
  ///     taken.
  ///   - progress: called now and then, with bytes; each is copied and then checked.
  /// - Throws: `.corrupted` with file and offset when the backup is damaged; `.notAStore` when
  ///   there is none, or when a store is in the directory already; `.sequenceUnavailable`;
  ///   `.locked`, `.noSpace`, `.io`, `.newerFormat`.
  /// - Complexity: O(bytes of the backup).
  @discardableResult
  public static func restore(
    _ backup: FilePath, to directory: FilePath, through sequence: SequenceNumber? = nil,
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    try await restore(
      backup, to: directory, through: sequence, on: DiskStorage(), progress)
  }

  /// The same, on any storage.
  package static func restore(
    _ backup: FilePath, to directory: FilePath, through sequence: SequenceNumber? = nil,
    on storage: any Storage, _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    let began = SystemClock.monotonicNanoseconds()
    let work = RestoreWork(
      storage: storage, backup: backup, path: directory, sequence: sequence, progress: progress)
    let thread = SerialQueue(.lasting)
    var staged = try await thread.run { () throws(StoreError) in try work.run() }
    do throws(StoreError) {
      try await check(&staged, directory, isRewound: sequence != nil, progress)
    } catch {
      // What is wrong with the backup says more than what is wrong with cleaning up behind it.
      do throws(StoreError) {
        try await thread.run { [staged] () throws(StoreError) in try RestoreWork.undo(staged) }
      } catch {}
      throw error
    }
    try await thread.run { [staged] () throws(StoreError) in try RestoreWork.finish(staged) }
    staged.report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    return staged.report
  }

  /// Opens what is there as the store that it will be, and reads every byte of it.
  private static func check(
    _ staged: inout RestoreWork.Staged, _ path: FilePath, isRewound: Bool,
    _ progress: (@Sendable (Progress) -> Void)?
  ) async throws(StoreError) {
    let pipeline = CommitPipeline()
    var configuration = Configuration()
    // What the backup has is what there is to be, garbage included.
    configuration.compaction = .manual
    var opener = try opener(
      RestoringStorage(directory: staged.directory), path, configuration, pipeline)
    opener.knowsDigest = !isRewound
    let store = try await open(opener)
    do throws(StoreError) {
      // What it says of segments that were cut is of the moment of the backup.
      if isRewound { try await store.publishManifest() }
      let total = staged.report.totalBytes
      let report = try await store.verify { part in
        progress?(
          Progress(completedBytes: total + part.completedBytes, totalBytes: 2 * total))
      }
      if let problem = report.problems.first { throw problem }
      staged.report.checkedBytes = report.checkedBytes
      staged.report.count = await store.count
      staged.report.sequence = await store.statistics.lastSequence
    } catch {
      do throws(StoreError) { try await store.close() } catch {}
      throw error
    }
    try await store.close()
  }
}
