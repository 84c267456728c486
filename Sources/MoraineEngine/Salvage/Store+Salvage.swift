import MoraineFormat
package import MoraineStorage
public import SystemPackage

extension Store {
  /// Makes a new store of what is whole in a damaged one, and says what is not.
  ///
  /// For a store that ``Store/init(at:configuration:)`` or ``verify(_:)`` calls `.corrupted`, where
  /// there is no backup, or one that is too old. Every record whose checksum is right is taken
  /// over, in its order, whatever lies between them; that holds also where a segment's header, the
  /// manifest, or a sector of the disk cannot be read. What an operation that is lost has
  /// overwritten or removed is there again; the report names it.
  ///
  /// The new store appears whole, or not at all. Nothing in the damaged one is changed. The new one
  /// has its own identity and sequence numbers.
  ///
  /// - Parameters:
  ///   - damaged: the store's directory; nobody may be writing to it.
  ///   - directory: where the new store will be: missing, or empty of stores; its parent must
  ///     exist.
  ///   - progress: called now and then, with bytes.
  /// - Throws: `.notAStore` when there is none, or when a store is in the directory already;
  ///   `.locked`, `.noSpace`, `.io`; `.newerFormat`, also for a single record that is sound and
  ///   newer.
  /// - Complexity: O(bytes of the store); behind damage it can be O(bytes²) of a segment whose
  ///   values were made to look like long records. Memory: a segment's bytes, and 16 for each of
  ///   its records; without a manifest, those of all segments whose sequence numbers overlap.
  @discardableResult
  public static func salvage(
    _ damaged: FilePath, to directory: FilePath,
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> SalvageReport {
    try await salvage(damaged, to: directory, on: DiskStorage(), progress)
  }

  /// The same, on any storage.
  package static func salvage(
    _ damaged: FilePath, to directory: FilePath, on storage: any Storage,
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> SalvageReport {
    let began = SystemClock.monotonicNanoseconds()
    let thread = SerialQueue(.lasting)
    let work = try await thread.run { () throws(StoreError) in
      try SalvageWork(storage, damaged)
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
        // Why it was not filled says more than why it was not closed.
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

  /// What salvaging would find lost, without making a store. As ``salvage(_:to:_:)``; but whether
  /// values that are compressed can be had is not tried, nor whether another value is there.
  package static func survey(
    _ damaged: FilePath, on storage: any Storage = DiskStorage()
  ) async throws(StoreError) -> SalvageReport {
    let thread = SerialQueue(.lasting)
    return try await thread.run { () throws(StoreError) in
      let work = try SalvageWork(storage, damaged)
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

  /// The store that is being filled, where its manifest is not called one yet.
  private static func openStaged(
    _ staged: RestoreWork.Staged, _ path: FilePath
  ) async throws(StoreError) -> Store {
    var configuration = Configuration()
    configuration.durability = .none
    let opener = try opener(
      RestoringStorage(directory: staged.directory), path, configuration, CommitPipeline())
    return try await open(opener, creating: true)
  }
}
