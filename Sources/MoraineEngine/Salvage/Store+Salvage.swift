import MoraineFormat
package import MoraineStorage
public import SystemPackage

extension Store {
  /// Makes a new store from the undamaged parts of a damaged one, and reports the rest.
  ///
  /// Use it for a store that ``init(at:configuration:)`` or ``verify(onProgress:)`` calls
  /// `.corrupted`, when there is no backup, or only one that is too old. Every record with a
  /// correct checksum is copied, in the order of the log, whatever bytes lie between the records.
  /// This holds even where a segment's header, the manifest or a sector of the disk cannot be read.
  /// A value that a lost operation has overwritten or removed exists again; the report names the
  /// lost operation.
  ///
  /// Keyspaces keep their names, and ordered ones stay ordered. Without the manifest, keyspaces are
  /// named `keyspace-1` and so on, and none is ordered: ``orderedKeyspace(named:defaultLifetime:)``
  /// orders one again.
  ///
  /// The new store appears whole or not at all. The damaged store is not changed. The new store has
  /// its own identity and its own sequence numbers.
  ///
  /// - Parameters:
  ///   - damaged: the store's directory. No process may have it open, and none can open it before
  ///     the salvage ends.
  ///   - directory: the directory of the new store. It must be missing, or contain no store; its
  ///     parent must exist.
  ///   - progress: called from time to time, with bytes.
  /// - Throws: `.notAStore` when there is no damaged store, or when the directory already contains
  ///   a store; `.locked`, `.noSpace`, `.io`; `.newerFormat`, even for a single undamaged record of
  ///   a newer format.
  /// - Complexity: O(bytes of the store). After damage, O(bytes²) of a segment is possible, if its
  ///   values were made to look like long records. Memory: the bytes of a segment, and 16 bytes for
  ///   each of its records; without a manifest, this holds for all segments together whose sequence
  ///   numbers overlap.
  @discardableResult
  public static func salvage(
    _ damaged: FilePath, to directory: FilePath,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> SalvageReport {
    try await salvage(damaged, to: directory, on: DiskStorage(), onProgress: progress)
  }

  /// Salvages the store with this path, like ``salvage(_:to:onProgress:)``.
  @discardableResult
  public static func salvage(
    _ damaged: String, to path: String,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> SalvageReport {
    try await salvage(FilePath(damaged), to: FilePath(path), onProgress: progress)
  }

  /// Salvages a store like ``salvage(_:to:onProgress:)``, on any storage.
  package static func salvage(
    _ damaged: FilePath, to directory: FilePath, on storage: any Storage,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> SalvageReport {
    let began = SystemClock.monotonicNanoseconds()
    let thread = SerialQueue(.lasting)
    let work = try await thread.run { () throws(StoreError) in
      try SalvageWork(storage, damaged, for: .readingAlone)
    }
    defer { work.free() }
    let staged = try await thread.run { () throws(StoreError) in
      try RestoreWork.stage(directory, on: storage)
    }
    var report = work.report
    do throws(StoreError) {
      let store = try await openStaged(staged, directory)
      var target = SalvageTarget(store: store, work: work, report: report)
      do throws(StoreError) {
        try await target.fill(thread, progress)
      } catch {
        // Throw the first error: later errors are mostly its consequence.
        do throws(StoreError) { try await store.close() } catch {}
        throw error
      }
      try await store.close()
      report = target.report
    } catch {
      do throws(StoreError) {
        try await thread.run { () throws(StoreError) in try RestoreWork.undo(staged) }
      } catch {}
      throw error
    }
    try await thread.run { () throws(StoreError) in try RestoreWork.finish(staged) }
    report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    return report
  }

  /// Returns a report of the losses that ``salvage(_:to:onProgress:)`` would find, without making a
  /// store. This function does not decompress values, and does not determine whether lost keys have
  /// another value. Programs that share the store may have it open; a compaction of one of them can
  /// make segments seem lost.
  package static func survey(
    _ damaged: FilePath, on storage: any Storage = DiskStorage()
  ) async throws(StoreError) -> SalvageReport {
    let thread = SerialQueue(.lasting)
    return try await thread.run { () throws(StoreError) in
      let work = try SalvageWork(storage, damaged, for: .reading)
      defer { work.free() }
      var report = work.report
      for (index, plans) in work.groups.enumerated() {
        let group = try work.load(plans, isLast: index == work.groups.count - 1)
        report.add(group)
        report.recordCount += UInt64(group.order.count)
      }
      return report
    }
  }

  /// Opens the store to be filled. Its manifest does not have its final name yet. The store deletes
  /// no entry that has ended.
  static func openStaged(
    _ staged: RestoreWork.Staged, _ path: FilePath
  ) async throws(StoreError) -> Store {
    var configuration = Store.Configuration()
    configuration.durability = .none
    configuration.expiryGrace = Store.Configuration.endlessGrace
    let opener = try opener(
      RestoringStorage(directory: staged.directory), path, configuration, CommitPipeline())
    return try await open(opener, creating: true)
  }
}
