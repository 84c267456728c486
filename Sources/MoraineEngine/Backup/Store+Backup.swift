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
  ///   holds something else; `.cursorDiverged` when it has a backup of another life of the store,
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
    return try BackupSource(&engine!, snapshots.living)
  }
}
