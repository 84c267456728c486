import MoraineFormat
package import MoraineStorage
public import SystemPackage

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
    let began = Machine.monotonicNanoseconds()
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
    staged.report.elapsedNanoseconds = Machine.monotonicNanoseconds() - began
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
