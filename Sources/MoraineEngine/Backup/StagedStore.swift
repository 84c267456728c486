package import MoraineFormat
package import MoraineStorage
import Synchronization
package import SystemPackage

/// A store that is put together from bytes that come from elsewhere, a segment at a time. The store
/// appears whole or not at all: a process that is killed leaves files that only another restore
/// uses, and removes.
///
/// Thread safety: the files are used on one serial queue, and the state is in a mutex.
package final class StagedStore: Sendable {
  private struct State {
    var files: [SegmentNumber: any StorageFile] = [:]
    /// The numbers of the open files, the oldest first.
    var order: [SegmentNumber] = []
    /// Whether the files are removed already, or belong to the store that appears.
    var hasEnded = false
    /// The highest generation of the manifests for which the segments were created.
    var generation: UInt64 = 0
  }

  private static let fileLimit = 16

  private let path: FilePath
  private let staged: RestoreWork.Staged
  private let thread = SerialQueue(.lasting)
  private let state = Mutex(State())

  private init(_ path: FilePath, _ staged: RestoreWork.Staged) {
    (self.path, self.staged) = (path, staged)
  }

  /// Begins a store in a directory, which must be missing or contain no store. Its parent must
  /// exist.
  ///
  /// - Parameter manifest: the manifest of the state, or of a part of it.
  /// - Throws: `.notAStore` when the directory contains a store, `.locked`, `.noSpace`, `.io`.
  package static func begin(
    at path: FilePath, on storage: any Storage, _ manifest: Manifest
  ) async throws(StoreError) -> StagedStore {
    let thread = SerialQueue(.lasting)
    return try await thread.run { () throws(StoreError) in
      let staged = try RestoreWork.stage(path, on: storage)
      do throws(StoreError) {
        // Write this file first: it marks the files of an interrupted restore as such.
        try ManifestFile(staged.base).write(manifest, over: FileName.restoring)
      } catch {
        // Throw the first error: later errors are mostly its consequence.
        do throws(StoreError) { try RestoreWork.undo(staged) } catch {}
        throw error
      }
      return StagedStore(path, staged)
    }
  }

  /// Writes bytes of a segment.
  ///
  /// - Throws: `.noSpace`, `.io`.
  package func write(
    _ bytes: [UInt8], to number: SegmentNumber, at offset: Int
  ) async throws(StoreError) {
    try await thread.run { [self] () throws(StoreError) in
      let file = try file(number)
      try bytes.withBytes { (bytes) throws(StoreError) in
        try storing { () throws(StorageError) in try file.write(bytes, at: UInt64(offset)) }
      }
    }
  }

  /// Returns the entry of a segment for the manifest, from its first bytes: every record is read
  /// and checked.
  ///
  /// - Throws: `.corrupted` when the bytes are no segment, or end within a record.
  package func entry(
    of segment: SegmentIdentity, lengthBytes: Int
  ) async throws(StoreError) -> Manifest.Segment {
    try await thread.run { [self] () throws(StoreError) in
      let (entry, header) = try Self.entry(of: segment, in: staged.base, lengthBytes)
      state.withLock { $0.generation = max($0.generation, header.generation) }
      return entry
    }
  }

  private static func entry(
    of segment: SegmentIdentity, in directory: any StorageDirectory, _ lengthBytes: Int
  ) throws(StoreError) -> (Manifest.Segment, SegmentHeader) {
    let name = segment.number.fileName
    guard let source = try SegmentFile.source(directory, name, limit: lengthBytes),
      source.length == lengthBytes
    else { throw .corrupted("the segment is shorter than \(lengthBytes) bytes", name, at: 0) }
    let header = try SegmentFile.header(source, name)
    guard header.number == segment.number, header.epoch == segment.epoch,
      header.salt == segment.salt
    else { throw .corrupted("the segment is another one", name, at: 0) }
    var entry = Manifest.Segment(number: segment.number, epoch: segment.epoch)
    entry.lengthBytes = UInt64(lengthBytes)
    entry.flags = .sealed
    if header.flags.contains(.compacted) { entry.flags.insert(.compacted) }
    if header.flags.contains(.clustered) { entry.flags.insert(.clustered) }
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    var (first, last) = (UInt64.max, UInt64(0))
    var isWhole = false
    while !isWhole {
      switch try scanner.next() {
      case .stop(let reason): throw .corrupted(reason, name, at: scanner.offset)
      case .end: isWhole = true
      case .record(let record):
        guard record.reference.header.kind.isOperation else { continue }
        entry.recordCount += 1
        first = min(first, record.reference.header.sequence)
        last = max(last, record.reference.header.sequence)
      }
    }
    if entry.recordCount > 0 {
      entry.firstSequence = SequenceNumber(rawValue: first)
      entry.lastSequence = SequenceNumber(rawValue: last)
    }
    if try !scanner.hasFooter(before: lengthBytes) { entry.flags.insert(.cut) }
    return (entry, header)
  }

  /// Makes the store appear, after every byte was read again and checked, with the digest of the
  /// live records. The store gets its own identity, and a new epoch unless it follows an archive.
  ///
  /// - Parameters:
  ///   - manifest: the manifest of the state, as a backup has it. With
  ///     ``Manifest/following``, the store continues to follow that archive.
  ///   - sequence: the last operation of an earlier state, after the last compaction that the
  ///     manifest knows; nil for the whole state. A batch that continues after it is left out.
  ///   - progress: called from time to time, with bytes.
  /// - Throws: `.corrupted`, with file and offset; the store does not appear then.
  package func finish(
    _ manifest: Manifest, through sequence: SequenceNumber? = nil,
    _ progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    do throws(StoreError) {
      return try await appear(manifest, sequence, progress)
    } catch {
      await discard()
      throw error
    }
  }

  private func appear(
    _ whole: Manifest, _ sequence: SequenceNumber?,
    _ progress: (@Sendable (Store.Progress) -> Void)?
  ) async throws(StoreError) -> RestoreReport {
    let began = SystemClock.monotonicNanoseconds()
    var staged = staged
    staged.follows = whole.following != nil
    staged.report = try await thread.run { [self] () throws(StoreError) in
      var manifest = whole
      // A manifest is not older than the segments that it lists.
      manifest.generation = max(manifest.generation, state.withLock { $0.generation })
      state.withLock { ($0.files, $0.order) = ([:], []) }
      if let sequence {
        try manifest.rewind(to: sequence, in: self.staged.base, place: path.string)
      }
      return try settle(manifest)
    }
    try await Store.check(
      &staged, path, sequence == nil ? .ofUnknownLiveBytes : .rewound, progress)
    // From here on that function removes the files, unless the store has appeared.
    state.withLock { $0.hasEnded = true }
    try await thread.run { [staged] () throws(StoreError) in try RestoreWork.finish(staged) }
    staged.report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    return staged.report
  }

  /// Makes the files durable that a manifest lists, at their lengths, and removes the others.
  private func settle(_ manifest: Manifest) throws(StoreError) -> RestoreReport {
    let base = staged.base
    let listed = Set(manifest.segments.map(\.number))
    for number in try DirectoryContents(base).segments.keys where !listed.contains(number) {
      try storing { () throws(StorageError) in try base.remove(number.fileName) }
    }
    for entry in manifest.segments {
      try storing { () throws(StorageError) in
        guard let file = try base.openFile(entry.number.fileName, .readWrite) else { return }
        try file.truncate(to: entry.lengthBytes)
        try file.synchronize(.full)
      }
    }
    try storing { () throws(StorageError) in try base.synchronize() }
    let first = manifest.following == nil ? manifest.ofNewLife : manifest.ofFollower
    try ManifestFile(base).write(first, over: FileName.restoring)
    var report = RestoreReport()
    report.segmentCount = manifest.segments.count
    report.totalBytes = manifest.segments.reduce(0) { $0 + $1.lengthBytes }
    report.copiedBytes = report.totalBytes
    return report
  }

  /// Removes all files again. The store does not appear.
  package func discard() async {
    let hasEnded = state.withLock { state in
      defer { state.hasEnded = true }
      return state.hasEnded
    }
    if hasEnded { return }
    // The error that made the caller give up matters, not this one: the next restore removes what
    // is left.
    do throws(StoreError) {
      try await thread.run { [self] () throws(StoreError) in
        state.withLock { ($0.files, $0.order) = ([:], []) }
        try RestoreWork.undo(staged)
      }
    } catch {}
  }

  /// Returns the file of a segment, which is created when it is missing.
  private func file(_ number: SegmentNumber) throws(StoreError) -> any StorageFile {
    if let file = state.withLock({ $0.files[number] }) { return file }
    let base = staged.base
    let file = try storing { () throws(StorageError) -> any StorageFile in
      if let known = try base.openFile(number.fileName, .readWrite) { return known }
      return try base.createFile(number.fileName)
    }
    state.withLock { state in
      state.files[number] = file
      state.order.append(number)
      if state.order.count > Self.fileLimit { state.files[state.order.removeFirst()] = nil }
    }
    return file
  }
}

extension Manifest {
  /// The first manifest of a restored store: these contents, a new epoch, and numbers of segments
  /// that no other store uses. Later changes of the old epoch are not part of this store's history,
  /// even where their sequence numbers are used again.
  var ofNewLife: Manifest {
    var manifest = self
    manifest.isBackup = false
    manifest.instanceID = StoreIdentifier(low: SystemRandom.number(), high: SystemRandom.number())
    manifest.forgetLaterCuts()
    (manifest.attachment, manifest.following) = (nil, nil)
    manifest.epoch += 1
    manifest.generation += 1
    manifest.createdMilliseconds = SystemClock.wallMilliseconds()
    manifest.epochs.append(
      Manifest.Epoch(
        epoch: manifest.epoch,
        firstSequence: SequenceNumber(rawValue: manifest.lastSequence.rawValue + 1),
        instanceID: manifest.instanceID))
    manifest.leaveNumbersToOtherLives()
    return manifest
  }
}
