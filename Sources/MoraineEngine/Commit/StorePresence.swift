import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// Check that the names in the store's directory still lead to the files that this process has
/// open: the directory by its path, `LOCK`, the manifest, the active segment, and the files of a
/// shared store whose locks and memory keep its processes apart.
///
/// People delete, move and overwrite files under a running program. The writes of such a program
/// then reach files that no name leads to, or overwrite the files that were put in their place. So
/// the names are checked after each sync before anything is acknowledged, before each segment is
/// created, sealed or listed, and after each event in the directory that the file system reports.
/// Where a name leads elsewhere, the store stops writing for good (`.storeReplaced`). Where a call
/// of the file system fails, the check concludes nothing from that.
///
/// In a shared store the other processes replace the manifest, and seal and compact the active
/// segment. There a newer manifest of the same store is right.
///
/// Thread safety: the mutex protects all mutable state. It is held across the rename of a manifest,
/// so that no other thread takes this process's own manifest for one of another process.
final class StorePresence: Sendable {
  /// The manifest that this process has read or written last.
  private struct Known {
    var manifest: Manifest
    /// Nil before the first check.
    var stamp: FileStamp?
  }

  private let directory: any StorageDirectory
  /// Files that must be the same for all processes. The writer has them open, so no other file gets
  /// their inode numbers.
  private let common: [(name: String, identity: FileIdentity)]
  private let isShared: Bool
  private let known: Mutex<Known>
  private let watch = Mutex<(any DirectoryWatch)?>(nil)

  /// - Parameters:
  ///   - common: the files that must be the same for all processes.
  ///   - manifest: the manifest in the directory.
  init(
    _ directory: any StorageDirectory, common: [any StorageFile], manifest: Manifest,
    isShared: Bool
  ) {
    self.directory = directory
    self.common = common.map { ($0.name, $0.identity) }
    self.isShared = isShared
    assert(Set(common.map(\.name)).count == common.count, "a common file is listed twice")
    known = Mutex(Known(manifest: manifest))
  }

  /// Checks all names but the active segment's.
  ///
  /// - Throws: `.storeReplaced`.
  func check() throws(StoreError) {
    try known.withLock { (known) throws(StoreError) in _ = try check(&known) }
  }

  /// Checks all names.
  ///
  /// - Parameters:
  ///   - active: the segment that is appended to.
  ///   - end: the end of the bytes that were just synced; nil when nothing was synced.
  /// - Throws: `.storeReplaced`.
  func check(active: any StorageFile, syncedTo end: UInt64?) throws(StoreError) {
    try known.withLock { (known) throws(StoreError) in
      try check(&known)
      let found = answerIfAvailable { () throws(StorageError) in
        try directory.extent(of: active.name)
      }
      guard case .some(let extent) = found else { return }
      if let extent, extent.identity == active.identity {
        if extent.lengthBytes >= end ?? 0 { return }
        throw replaced("\(active.name) was truncated", active.name)
      }
      guard isShared else { throw replaced("\(active.name) was deleted or replaced", active.name) }
      try checkReplacement(active, extent != nil, end, &known)
    }
  }

  /// Renames a manifest from its temporary name, unless the manifest in the directory is not the
  /// one that this process knows.
  ///
  /// - Returns: false when the store was replaced; `problem` is set then.
  func replaceManifest(
    by next: Manifest, _ problem: inout StoreError?
  ) throws(StorageError) -> Bool {
    try known.withLock { (known) throws(StorageError) in
      do throws(StoreError) {
        try check(&known)
        guard known.manifest.generation < next.generation else {
          throw replaced(
            "the manifest was replaced by one that this process did not write",
            Manifest.fileName)
        }
      } catch {
        problem = error
        return false
      }
      try directory.rename(Manifest.temporaryFileName, to: Manifest.fileName)
      known.manifest = next
      known.stamp =
        answerIfAvailable { () throws(StorageError) in
          try directory.stamp(of: Manifest.fileName)
        } ?? nil
      return true
    }
  }

  /// Continues from `before`, if that is about the same epoch of the same store.
  ///
  /// When `before` knows a newer manifest, the check expects that one from now on.
  ///
  /// - Returns: false when `before` is about another store or epoch.
  func continues(_ before: StorePresence) -> Bool {
    assert(before !== self, "a check is replaced by itself")
    let earlier = before.known.withLock { $0 }
    return known.withLock { known in
      guard known.manifest.isOfSameStore(as: earlier.manifest) else { return false }
      if earlier.manifest.generation > known.manifest.generation { known = earlier }
      return true
    }
  }

  /// The manifest that this process has read or written last.
  var manifest: Manifest { known.withLock { $0.manifest } }

  /// Calls the body soon after an event that concerns the names.
  func watch(_ body: @escaping @Sendable () -> Void) {
    let started = directory.watch(
      { name in
        name == Manifest.fileName || name == FileName.lock || name.hasSuffix(".segment")
          || FileName.shared.contains(name)
      }, body)
    watch.withLock { $0 = started }
  }

  /// Stops watching. From now on other processes may change the directory as they like.
  func stopWatching() { watch.withLock { $0 = nil } }
}

extension StorePresence {
  /// Checks all names but the active segment's, and reads the manifest where it is not the known
  /// one.
  ///
  /// - Returns: whether the known manifest was in the directory during the call; false when the
  ///   file system does not say that.
  @discardableResult
  private func check(_ known: inout Known) throws(StoreError) -> Bool {
    let isInPlace = answerIfAvailable { () throws(StorageError) in try directory.isInPlace() }
    if case .some(false) = isInPlace {
      throw replaced(
        "the store's directory was deleted, moved or replaced", directory.path.string)
    }
    for file in common {
      let extent = answerIfAvailable { () throws(StorageError) in
        try directory.extent(of: file.name)
      }
      if case .some(let extent) = extent, extent?.identity != file.identity {
        throw replaced("\(file.name) was deleted or replaced", file.name)
      }
    }
    let stamp = answerIfAvailable { () throws(StorageError) in
      try directory.stamp(of: Manifest.fileName)
    }
    guard case .some(let stamp) = stamp else { return false }
    guard let stamp else { throw replaced("the manifest was deleted", Manifest.fileName) }
    if stamp == known.stamp { return true }
    return try read(stamp, &known)
  }

  /// Reads a manifest that was written to or is another file. Its content decides.
  ///
  /// - Returns: false when something prevented the reading.
  private func read(_ stamp: FileStamp, _ known: inout Known) throws(StoreError) -> Bool {
    let found: Manifest?
    do throws(StoreError) {
      found = try ManifestFile.readPresent(directory)
    } catch {
      // The error is not about the bytes of the manifest: something prevented reading them.
      if [.io, .noSpace, .limitExceeded].contains(error.code) { return false }
      throw replaced("the manifest was overwritten (\(error.message))", Manifest.fileName)
    }
    guard let found else { throw replaced("the manifest was deleted", Manifest.fileName) }
    let isRight =
      isShared
      ? found.isOfSameStore(as: known.manifest)
        && (found == known.manifest || found.generation > known.manifest.generation)
      : found == known.manifest
    guard isRight else {
      throw replaced("the manifest was replaced by another one", Manifest.fileName)
    }
    known = Known(manifest: found, stamp: stamp)
    return true
  }

  /// Checks that another process of a shared store only did what it may do with the active segment:
  /// seal it, and compact it later; or, after its writer died, replace it by an identical copy that
  /// is on the disk.
  ///
  /// The process that removes a segment has published a manifest before that does not list it as
  /// open, and no later manifest does. So only a manifest that is read after a look at the file's
  /// name says whether what the look found is wrong: this process may have been stopped for long
  /// since it read a manifest.
  private func checkReplacement(
    _ active: any StorageFile, _ isThere: Bool, _ end: UInt64?, _ known: inout Known
  ) throws(StoreError) {
    assert(isShared, "the segment of a store of one process was replaced")
    guard try isStillOpen(active, &known) else { return }
    guard isThere else { throw replaced("\(active.name) was deleted", active.name) }
    // No sync is about to be acknowledged; the manifest will say what the copy is.
    guard let end else { return }
    let isCopy = answerIfAvailable { () throws(StorageError) in
      guard let copy = try directory.openFile(active.name, .readWrite),
        try Self.areEqual(active, copy, through: end)
      else { return false }
      try copy.synchronize(.full)
      return true
    }
    if isCopy == true { return }
    // The copy may have been sealed and compacted before the comparison opened it.
    guard try isStillOpen(active, &known) else { return }
    throw replaced("\(active.name) was replaced", active.name)
  }

  /// Whether the manifest that is in the directory now lists the segment as open; false when the
  /// file system does not say that.
  private func isStillOpen(
    _ active: any StorageFile, _ known: inout Known
  ) throws(StoreError) -> Bool {
    guard try check(&known) else { return false }
    let number = SegmentNumber(fileName: active.name)
    return known.manifest.segments.contains { $0.number == number && !$0.isSealed }
  }

  private static func areEqual(
    _ one: any StorageFile, _ other: any StorageFile, through end: UInt64
  ) throws(StorageError) -> Bool {
    let length = 1 << 18
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 2 * length, alignment: 16)
    defer { buffer.deallocate() }
    var offset: UInt64 = 0
    while offset < end {
      let count = Int(min(UInt64(length), end - offset))
      let first = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
      let second = UnsafeMutableRawBufferPointer(rebasing: buffer[length..<length + count])
      guard try one.read(into: first, at: offset) == count,
        try other.read(into: second, at: offset) == count,
        UnsafeRawBufferPointer(first).elementsEqualFast(UnsafeRawBufferPointer(second))
      else { return false }
      offset += UInt64(count)
    }
    return true
  }

  /// Returns the answer of the file system; nil when the call fails.
  private func answerIfAvailable<Answer>(
    _ question: () throws(StorageError) -> Answer
  ) -> Answer? {
    do throws(StorageError) { return try question() } catch { return nil }
  }

  private func replaced(_ what: String, _ file: String) -> StoreError {
    StoreError(
      .storeReplaced,
      "\(what) while the store was open; later writes may be lost. Open the path again "
        + "to use the files that exist now", file: file, errno: .staleNFSFileHandle)
  }
}

/// Files that are deleted, moved or replaced while the store is open.
extension CommitPipeline {
  /// Watches the names of a store, which is open for writing from now on.
  ///
  /// The names of another store never replace those of this one: a sync that ends at that moment
  /// would be checked against the other store's names, and acknowledged.
  func watchOver(_ next: StorePresence) {
    let current = presence.withLock { $0 }
    if let current, !next.continues(current) {
      return poison(
        StoreError(
          .storeReplaced, "another store has replaced this one; open the path again",
          file: Manifest.fileName))
    }
    let before = presence.withLock { presence in
      defer { presence = next }
      return presence
    }
    before?.stopWatching()
    next.watch { [weak self, weak next] in
      guard let self, let next, !hasPoison else { return }
      // The job also runs where the pool has no thread: it makes only a few calls to the file
      // system.
      enqueue { [weak self] _ in self?.checkPresence(next) }
    }
  }

  /// The manifest in the directory, as this process knows it; nil while nothing is watched.
  var knownManifest: Manifest? { presence.withLock { $0 }?.manifest }

  /// Ends the watch. From now on this process writes nothing to the directory.
  func endWatch() {
    // A forked child writes nothing, and a thread of the parent may have held the lock.
    guard isInItsProcess else { return }
    let before = presence.withLock { presence in
      defer { presence = nil }
      return presence
    }
    before?.stopWatching()
  }

  /// The number of the store's stay in its directory. A job of an earlier stay must not remove
  /// files: their names may belong to another store by now.
  ///
  /// A read of a file checks it afterwards: it holds no lock that the end of a stay waits for.
  var stay: UInt64 { stays.load(ordering: .sequentiallyConsistent) }

  /// Ends the stay. The caller then runs an empty job before it releases the directory: jobs that
  /// were added before that job have ended then, and jobs that are added later see another stay.
  ///
  /// - Parameter isLast: whether the store is closed, and not suspended.
  func endStay(isLast: Bool) {
    if isLast { hasEndedLastStay.store(true, ordering: .sequentiallyConsistent) }
    stays.add(1, ordering: .sequentiallyConsistent)
  }

  /// Checks on the committing thread, after an event, that all names lead where they did.
  private func checkPresence(_ expected: StorePresence) {
    guard presence.withLock({ $0 === expected }) else { return }
    let file = monitor.withLock { $0.file }
    do throws(StoreError) {
      if let file {
        try expected.check(active: file, syncedTo: nil)
      } else {
        try expected.check()
      }
    } catch {
      poison(error)
    }
  }

  /// Checks, before anything in the directory is replaced or removed, that the directory is the
  /// store's.
  ///
  /// - Throws: `.storeReplaced`, and then the pipeline is poisoned.
  func checkPresence() throws(StoreError) {
    guard let presence = presence.withLock({ $0 }) else { return }
    do throws(StoreError) { try presence.check() } catch {
      poison(error)
      throw error
    }
  }

  /// Checks, before a sync is acknowledged, that a name leads to the file that was synced.
  ///
  /// - Throws: as ``checkPresence()``.
  func checkPresence(
    of file: any StorageFile, syncedTo offset: UInt64
  ) throws(StoreError) {
    guard let presence = presence.withLock({ $0 }) else { return }
    do throws(StoreError) { try presence.check(active: file, syncedTo: offset) } catch {
      poison(error)
      throw error
    }
  }
}

/// The point in the history of a store at which a suspension begins. Other processes may go on from
/// there. The files of another history have other operations with the same sequence numbers.
struct StoreHistory: Sendable {
  private let storeID: StoreIdentifier
  private let instanceID: StoreIdentifier
  private let epoch: UInt64
  private let generation: UInt64
  private let isBackup: Bool

  init(_ manifest: Manifest) {
    (storeID, instanceID) = (manifest.storeID, manifest.instanceID)
    (epoch, generation) = (manifest.epoch, manifest.generation)
    isBackup = manifest.isBackup
  }

  /// Whether the manifest is this one, or a later one of the same store. A restored store has
  /// another instance. A store that follows an archive may have got a later epoch from there.
  func isContinued(by manifest: Manifest) -> Bool {
    storeID == manifest.storeID && instanceID == manifest.instanceID
      && isBackup == manifest.isBackup && epoch <= manifest.epoch
      && generation <= manifest.generation
  }
}

extension Manifest {
  fileprivate func isOfSameStore(as other: Manifest) -> Bool {
    storeID == other.storeID && instanceID == other.instanceID && epoch == other.epoch
      && isBackup == other.isBackup
  }
}
