public import MoraineEngine
import MoraineFormat
package import MoraineStorage
public import SystemPackage

/// A continuous copy of one store in a store of objects: each moment of the past can be restored.
///
/// ```swift
/// let objects = DirectoryObjectStore("/mnt/nas/archives")
/// try await objects.createRoot()  // once
/// let archive = try await Archive.open(
///   objects, at: try ObjectName("users"), createIfMissingFor: store)
/// let writer = try await archive.attach(store)
/// // … the program writes to the store as before …
/// try await writer.detach()
/// ```
///
/// The durable part of the log is shipped about once a second, byte for byte, as numbered commits.
/// Now and then a checkpoint makes everything older superfluous. Local writes do not wait for it.
/// One store writes an archive at a time: the one that attaches last fences the others, and a
/// fenced store writes nothing more.
public struct Archive: Sendable {
  let objects: ArchiveObjects
  let configuration: ArchiveConfiguration
  let leftovers = CleaningLeftovers()

  /// The id of the archive, as text.
  public var id: String { objects.archiveID.description }

  /// Opens an archive.
  ///
  /// - Parameters:
  ///   - store: the store of objects.
  ///   - root: the name below which the archive's objects are.
  ///   - local: the store for which the archive is created when there is none; nil to open only.
  ///   - configuration: the settings; those of the archive's writer, too.
  /// - Throws: `.notFound`, `.unavailable`, `.unsupportedStore`, `.damaged`, `.newerFormat`.
  public static func open(
    _ store: any ObjectStore, at root: ObjectName, createIfMissingFor local: Store? = nil,
    configuration: ArchiveConfiguration = ArchiveConfiguration()
  ) async throws(ArchiveError) -> Archive {
    let names = try ArchiveNames(root: root)
    let noID = StoreIdentifier(low: 0, high: 0)
    let patience = Patience(configuration)
    let unknown = ArchiveObjects(
      store: store, names: names,
      identity: ArchiveIdentity(archiveID: noID, storeID: noID, createdMilliseconds: 0),
      patience: patience)
    var found = try await unknown.record(ArchiveIdentity.self, names.identity)
    if found == nil, let local {
      found = try await create(for: local, unknown)
    }
    guard let found else {
      throw ArchiveError(
        .notFound, "there is no archive here; check the name, or create one", object: root)
    }
    let objects = ArchiveObjects(store: store, names: names, identity: found, patience: patience)
    return Archive(objects: objects, configuration: configuration)
  }

  private static func create(
    for local: Store, _ objects: ArchiveObjects
  ) async throws(ArchiveError) -> ArchiveIdentity? {
    let identity = ArchiveIdentity(
      archiveID: StoreIdentifier(low: SystemRandom.number(), high: SystemRandom.number()),
      storeID: try await local.archivedState().head.storeID,
      createdMilliseconds: SystemClock.wallMilliseconds())
    var attempts = Attempts(objects.patience)
    while true {
      do throws(ObjectStoreError) {
        // Where another program was faster, its archive counts.
        _ = try await objects.store.create(objects.names.identity, ObjectBody(identity.encoded()))
        break
      } catch {
        try await attempts.pause(after: error)
      }
    }
    return try await objects.record(ArchiveIdentity.self, objects.names.identity)
  }

  /// Takes over the writing of the archive from this store, and ships what it writes from now on.
  /// Writers of other machines, and of copies of this store, are fenced.
  ///
  /// - Throws: `.diverged` when the store lacks what the archive has; `.otherStore`; `.fenced` when
  ///   another writer attaches at the same time; `.unsupportedStore`; `.unavailable`; `.store`.
  public func attach(_ store: Store) async throws(ArchiveError) -> ArchiveWriter {
    if configuration.probesStore { try await objects.probe() }
    return try await ArchiveWriter.attach(store, objects, configuration)
  }

  /// Makes a store from the archive. Each byte is checked, with the digest of the live records,
  /// before the store appears: whole or not at all.
  ///
  /// The restored store has its own identity and a new epoch.
  ///
  /// - Parameters:
  ///   - directory: the directory of the new store: missing, or without a store. Its parent must
  ///     exist.
  ///   - point: the moment.
  ///   - progress: called from time to time, with bytes.
  /// - Throws: `.stateUnavailable` when the archive does not hold that moment; `.damaged` with
  ///   object and offset; `.unavailable`; `.store`.
  @discardableResult
  public func restore(
    to directory: FilePath, at point: RestorePoint = .latest,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(ArchiveError) -> RestoreReport {
    try await restore(to: directory, at: point, on: DiskStorage(), onProgress: progress)
  }

  /// Opens a store that follows the archive: what the writer archives appears there about once
  /// ``ArchiveConfiguration/pollInterval``. A directory without a store gets the newest state of
  /// the archive first. No other process may have the directory open.
  ///
  /// - Parameters:
  ///   - directory: the directory of the follower; its parent must exist. While a follower begins
  ///     again from a whole copy, that copy is in a directory beside it, with the suffix `.rebase`.
  ///   - configuration: the settings of the store. A follower is not shared.
  /// - Throws: `.stateUnavailable` when the archive is empty; `.diverged` when the directory
  ///   contains a store that follows no archive; `.otherStore`; `.damaged`; `.unavailable`;
  ///   `.store`.
  public func follow(
    in directory: FilePath, configuration: Store.Configuration = Store.Configuration()
  ) async throws(ArchiveError) -> Follower {
    try await follow(in: directory, on: DiskStorage(), configuration: configuration)
  }

  /// Follows in a directory of any storage.
  ///
  /// - Parameter polls: whether the follower reads the archive by itself.
  package func follow(
    in directory: FilePath, on storage: any Storage,
    configuration: Store.Configuration = Store.Configuration(), polls: Bool = true
  ) async throws(ArchiveError) -> Follower {
    try await Follower.open(self, in: directory, on: storage, configuration, polls: polls)
  }

  /// Lets the directory of an earlier writer follow the archive, after another machine has taken
  /// over the writing. The directory is renamed: it may have operations that were never archived.
  ///
  /// The archive is restored beside the directory first, with the suffix `.rejoining`, so a failure
  /// until then changes nothing. When the program is killed between the two renamings, the path is
  /// missing and both others exist.
  ///
  /// - Parameters:
  ///   - directory: the directory of a store that no process has open.
  ///   - configuration: the settings of the follower's store.
  /// - Returns: the follower, and the new path of the earlier store, named as ``adopt(in:)`` says;
  ///   nil when the directory had no store, or follows the archive already.
  /// - Throws: the errors of ``follow(in:configuration:)``; `.store` with `.locked`. An error after
  ///   the renaming names the new path.
  public func rejoin(
    in directory: FilePath, configuration: Store.Configuration = Store.Configuration()
  ) async throws(ArchiveError) -> (follower: Follower, branch: FilePath?) {
    try await rejoin(in: directory, on: DiskStorage(), configuration: configuration)
  }

  /// Rejoins in a directory of any storage.
  package func rejoin(
    in directory: FilePath, on storage: any Storage, configuration: Store.Configuration
  ) async throws(ArchiveError) -> (follower: Follower, branch: FilePath?) {
    try Follower.check(configuration)
    let staged = directory.sibling(suffix: ".rejoining")
    let isBranch = try await storing { () async throws(StoreError) -> Bool in
      // What a killed call has left.
      try await FollowerFiles.remove(at: staged, on: storage)
      return try await FollowerFiles.hasBranch(
        directory, of: objects.identity.storeID, on: storage)
    }
    var branch: FilePath?
    if isBranch {
      branch = try await replace(directory, by: staged, follows: true, on: storage)
    }
    do throws(ArchiveError) {
      let follower = try await follow(in: directory, on: storage, configuration: configuration)
      return (follower, branch)
    } catch {
      guard let branch else { throw error }
      throw ArchiveError(
        error.code, "\(error.message); the earlier store is at \(branch) now", object: error.object,
        offset: error.offset, underlying: error.underlying, storeError: error.storeError)
    }
  }

  /// Replaces the store in a directory by the newest state of the archive: for a store that is
  /// older than its archive, or went on by itself.
  ///
  /// The archive is restored beside the directory first, so a failure changes nothing. Then the
  /// directory is renamed, so no operation is lost. When the program is killed in between, the path
  /// is missing and both others exist.
  ///
  /// - Parameter directory: the directory of a store that no process has open.
  /// - Returns: the new path of the earlier store: `<directory>.branch-<epoch>`, followed by `-2`,
  ///   `-3` and so on where that name is taken.
  /// - Throws: the errors of ``restore(to:at:onProgress:)``; `.store` with `.locked` when a process
  ///   has the store open, or with `.notAStore`.
  public func adopt(in directory: FilePath) async throws(ArchiveError) -> FilePath {
    let storage = DiskStorage()
    let staged = directory.sibling(suffix: ".adopting")
    let storeID = objects.identity.storeID
    // Before the archive is read, which may take long.
    try await storing { () async throws(StoreError) in
      guard try await FollowerFiles.hasBranch(directory, of: storeID, on: storage) else {
        throw StoreError(
          .notAStore, "the directory has no store, or one that follows an archive",
          file: directory.string)
      }
      // What a killed call has left.
      try await FollowerFiles.remove(at: staged, orCopyOf: storeID, on: storage)
    }
    return try await replace(directory, by: staged, follows: false, on: storage)
  }

  /// Puts the newest state of the archive in the place of a store, which is renamed.
  ///
  /// - Parameters:
  ///   - staged: the directory in which the archive is restored first; removed after a failure.
  ///   - follows: whether the new store follows the archive.
  /// - Returns: the new path of the earlier store.
  private func replace(
    _ directory: FilePath, by staged: FilePath, follows: Bool, on storage: any Storage
  ) async throws(ArchiveError) -> FilePath {
    let storeID = objects.identity.storeID
    do throws(ArchiveError) {
      _ = try await ArchiveRestore(
        objects: objects, storage: storage, path: staged, follows: follows, nil
      ).run(.latest)
      return try await storing { () async throws(StoreError) -> FilePath in
        try await FollowerFiles.replaceKeeping(directory, by: staged, of: storeID, on: storage)
      }
    } catch {
      // The archive has all that the restored store has. The first error counts: a second one is
      // mostly its consequence.
      do throws(StoreError) {
        try await FollowerFiles.remove(at: staged, orCopyOf: storeID, on: storage)
      } catch {}
      throw error
    }
  }

  /// Restores to a directory of any storage.
  package func restore(
    to directory: FilePath, at point: RestorePoint, on storage: any Storage,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(ArchiveError) -> RestoreReport {
    try await ArchiveRestore(objects: objects, storage: storage, path: directory, progress)
      .run(point)
  }
}

/// A moment that can be restored.
public struct RestorePoint: Hashable, Sendable {
  enum Kind: Hashable {
    case latest
    case sequence(SequenceNumber)
    case time(UInt64)
    case position(UInt64)
  }

  let kind: Kind

  /// The newest state in the archive.
  public static let latest = RestorePoint(kind: .latest)
  /// The state after an operation in the history of the newest state; a batch that continues after
  /// it is left out as a whole.
  public static func sequence(_ number: SequenceNumber) -> RestorePoint {
    RestorePoint(kind: .sequence(number))
  }
  /// The newest state that was shipped at a time or before: milliseconds since the beginning of
  /// 1970, UTC, by the writer's clock.
  public static func time(milliseconds: UInt64) -> RestorePoint {
    RestorePoint(kind: .time(milliseconds))
  }
  /// The state after a commit.
  public static func position(_ position: UInt64) -> RestorePoint {
    RestorePoint(kind: .position(position))
  }
}

extension Store {
  /// Returns the present state; creates the store on the disk when it does not exist yet.
  func archivedState() async throws(ArchiveError) -> LogCut {
    do throws(StoreError) {
      try await createIfMissing()
      if let cut = try await logCut() { return cut }
      throw StoreError(.closed, "the store was closed; open it again")
    } catch {
      throw ArchiveError(error)
    }
  }
}
