import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// A backup of a store's state at one moment into a directory. The process may be killed at any
/// point, and the backup may run again: the old manifest and all files that it lists exist until
/// the new manifest is in place.
struct BackupWork: Sendable {
  let source: LogCut
  let storage: any Storage
  let path: FilePath
  let progress: (@Sendable (Store.Progress) -> Void)?

  func run() throws(StoreError) -> BackupReport {
    let began = SystemClock.monotonicNanoseconds()
    let directory = try storage.openTarget(path)
    let lock = try DirectoryLock(directory)
    defer { lock.free() }
    // A backup that was killed may have renamed a manifest without making that durable.
    try storing { () throws(StorageError) in try directory.synchronize() }
    assert(source.head.isBackup, "a backup has the manifest of a store")
    let listing = try DirectoryContents(directory)
    let before: Manifest?
    do throws(StoreError) {
      before = try earlierBackup(directory, listing)
    } catch {
      throw ofEarlierBackup(error)
    }
    var report = BackupReport()
    report.sequence = source.head.lastSequence
    report.segmentCount = source.segments.count
    report.totalBytes = source.segments.reduce(0) { $0 + $1.entry.lengthBytes }
    try transfer(into: directory, listing, beside: before, &report)
    try storing { () throws(StorageError) in try directory.synchronize() }
    try ManifestFile(directory).write(manifest(after: before), over: Manifest.fileName)
    try removeOthers(directory, listing)
    report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    return report
  }

  /// Returns the manifest of an earlier backup of this store; nil when the directory holds none.
  ///
  /// - Throws: `.notAStore` when the directory holds something else, which must not be overwritten;
  ///   `.historyDiverged`.
  private func earlierBackup(
    _ directory: any StorageDirectory, _ listing: DirectoryContents
  ) throws(StoreError) -> Manifest? {
    guard listing.hasManifest else {
      try checkLeftovers(directory, listing)
      return nil
    }
    let manifest = try ManifestFile.read(directory, listing)
    guard let manifest, manifest.isBackup, manifest.storeID == source.head.storeID else {
      throw StoreError(
        .notAStore,
        "this directory holds something other than a backup of this store; "
          + "choose an empty one", file: path.string)
    }
    guard manifest.epoch == source.head.epoch,
      manifest.instanceID == source.head.instanceID,
      manifest.lastSequence <= source.head.lastSequence
    else {
      throw StoreError(
        .historyDiverged,
        "this is a backup of another copy of the store, or of a later state; "
          + "choose an empty directory", file: path.string)
    }
    try checkNothingIsLost(manifest)
    try checkSameSegments(manifest, directory, listing)
    return manifest
  }

  /// Returns the error for damage in the directory of the backup. The advice to restore the store
  /// from a backup would be wrong: the store is intact, and this backup is not.
  private func ofEarlierBackup(_ error: StoreError) -> StoreError {
    guard error.code == .corrupted else { return error }
    let advice = "; restore the store from a backup"
    let hasAdvice = error.message.hasSuffix(advice)
    let reason = error.message.dropLast(hasAdvice ? advice.count : 0)
    let file = error.file.map { path.appending($0) } ?? path
    return StoreError(
      .corrupted,
      "the earlier backup is damaged: \(reason); keep the store, and back up into an empty "
        + "directory", file: file.string, offset: error.offset)
  }

  /// Checks that the store still has all operations of its backup. A power failure can set a store
  /// back; the store then continues without operations that its backup has. The cuts in the store's
  /// manifest show this, however many operations followed.
  private func checkNothingIsLost(_ before: Manifest) throws(StoreError) {
    let lengths = Dictionary(
      source.segments.map { ($0.entry.number, $0.entry.lengthBytes) }, uniquingKeysWith: { $1 })
    let isShorter = before.segments.contains { $0.lengthBytes > lengths[$0.number] ?? .max }
    // The segment may be gone as a whole, or it may have grown again since.
    let last = before.segments.map(\.lastSequence).max() ?? .none
    if isShorter || source.head.mayHaveLost(through: last, since: before.cuts) {
      throw StoreError(
        .historyDiverged,
        "this backup holds operations that the store has lost in a crash; "
          + "keep it, and choose an empty directory", file: path.string)
    }
  }

  /// Checks that the files of an earlier backup are the store's segments with these numbers. An
  /// earlier version also copied segments whose manifest was not durable: after a power failure,
  /// another segment could get the number of such a segment.
  private func checkSameSegments(
    _ before: Manifest, _ directory: any StorageDirectory, _ listing: DirectoryContents
  ) throws(StoreError) {
    let identities = Dictionary(
      source.segments.map { ($0.identity.number, $0.identity) }, uniquingKeysWith: { $1 })
    for entry in before.segments {
      let name = entry.number.fileName
      // A file that has become too short is replaced.
      guard let identity = identities[entry.number],
        listing.segments[entry.number] ?? 0 >= entry.lengthBytes,
        let bytes = try SegmentFile.source(directory, name, limit: nil),
        try SegmentFile.header(bytes, name).salt != identity.salt
      else { continue }
      throw StoreError(
        .historyDiverged,
        "this backup holds another segment \(entry.number) than the store; "
          + "keep it, and choose an empty directory", file: path.appending(name).string)
    }
  }

  /// Checks a directory without a manifest: it may contain only segments from an interrupted backup
  /// of this store.
  private func checkLeftovers(
    _ directory: any StorageDirectory, _ listing: DirectoryContents
  ) throws(StoreError) {
    for number in listing.segments.keys.sorted() {
      let bytes = try SegmentFile.source(directory, number.fileName, limit: nil)
      guard let bytes,
        try SegmentFile.header(bytes, number.fileName).storeID == source.head.storeID
      else {
        throw StoreError(
          .notAStore, "the directory holds segments of another store; choose an empty one",
          file: path.appending(number.fileName).string)
      }
    }
  }

  private func transfer(
    into directory: any StorageDirectory, _ listing: DirectoryContents, beside before: Manifest?,
    _ report: inout BackupReport
  ) throws(StoreError) {
    let copier = SegmentCopier(source: source.directory, target: directory, mayLink: true)
    let known = Dictionary(
      (before?.segments ?? []).map { ($0.number, $0) }, uniquingKeysWith: { $1 })
    var done: UInt64 = 0
    for (index, segment) in source.segments.enumerated() {
      let entry = segment.entry
      // The same number is the same segment: that was checked.
      if let there = known[entry.number], there.lengthBytes == entry.lengthBytes,
        there.flags == entry.flags, listing.segments[entry.number] == entry.lengthBytes
      {
        report.keptSegmentCount += 1
        done += entry.lengthBytes
        continue
      }
      let isShared = try copier.transfer(piece(index)) { count in
        done += UInt64(count)
        progress?(Store.Progress(completedBytes: done, totalBytes: report.totalBytes))
      }
      if isShared {
        report.sharedSegmentCount += 1
      } else {
        report.copiedBytes += entry.lengthBytes
      }
    }
    assert(done == report.totalBytes, "a backup has other bytes than its segments")
  }

  private func piece(_ index: Int) -> SegmentCopier.Piece {
    SegmentCopier.Piece(
      source.segments[index].entry, mapping: source.segments[index].mapping,
      isDurable: { [source] in source.isInItsDirectory && source.isDurable(index) },
      check: { [segment = source.segments[index]] () throws(StoreError) in try segment.check() })
  }

  /// Returns the manifest to write. Each manifest of a directory has a higher generation than the
  /// manifest before it.
  private func manifest(after before: Manifest?) -> Manifest {
    var manifest = source.manifest
    manifest.generation = max(manifest.generation, (before?.generation ?? 0) + 1)
    assert(manifest.generation > before?.generation ?? 0, "a manifest has a generation used before")
    return manifest
  }

  private func removeOthers(
    _ directory: any StorageDirectory, _ listing: DirectoryContents
  ) throws(StoreError) {
    let listed = Set(source.segments.map(\.entry.number))
    for number in listing.segments.keys.sorted() where !listed.contains(number) {
      try storing { () throws(StorageError) in try directory.remove(number.fileName) }
    }
  }
}
