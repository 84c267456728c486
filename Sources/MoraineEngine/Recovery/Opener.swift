import MoraineFormat
import MoraineStorage
import SystemPackage

/// Opens a store: directory, lock, manifest, replay, judgement of the tail, repair, in this order.
/// May be killed at any point and run again.
struct Opener {
  let storage: any Storage
  let path: FilePath
  let configuration: Configuration
  let pipeline: CommitPipeline

  static let lockName = "LOCK"

  /// - Parameter creating: whether to make the store when there is none.
  /// - Returns: nil when there is no store and none is to be made.
  func open(creating: Bool) throws(StoreError) -> EngineState? {
    let began = Machine.monotonicNanoseconds()
    guard let directory = try openDirectory(creating: creating) else { return nil }
    let first = try Listing(directory)
    guard first.hasStore || creating else {
      guard configuration.createIfMissing else { throw notAStore() }
      return nil
    }
    let lock = try takeLock(directory)
    // What was seen before the lock may have changed.
    let listing = try Listing(directory)
    let manifest = try readManifest(directory, listing)
    // Only now: a store that this program does not understand stays as it is, to the last byte.
    try nameHolder(in: lock)
    var state = EngineState(
      directory: directory, lock: lock, manifest: manifest ?? newManifest(),
      configuration: configuration, pipeline: pipeline)
    var report = RecoveryReport()
    report.foreignFiles = listing.foreign
    if manifest == nil {
      // The directory may be left from a birth that died before its name was durable.
      try storing { () throws(StorageError) in try storage.createDirectory(path) }
      try ManifestPublisher(directory: directory, pipeline: pipeline).publish(state.manifest)
    } else {
      try Recovery(listing: listing, opener: self).run(&state, &report)
    }
    report.elapsedNanoseconds = Machine.monotonicNanoseconds() - began
    state.report = report
    return state
  }

  private func openDirectory(creating: Bool) throws(StoreError) -> (any StorageDirectory)? {
    do throws(StorageError) {
      if let directory = try storage.openDirectory(path) { return directory }
      if creating {
        try storage.createDirectory(path)
        return try storage.openDirectory(path)
      }
    } catch {
      throw directoryError(error)
    }
    guard configuration.createIfMissing else { throw notAStore() }
    return nil
  }

  private func directoryError(_ error: StorageError) -> StoreError {
    switch error.errno {
    case .notDirectory, .tooManySymbolicLinkLevels:
      StoreError(
        .notAStore, "this path is a file or a symbolic link; name the store's own directory",
        file: path.string, errno: error.errno)
    default: StoreError(error)
    }
  }

  private func notAStore() -> StoreError {
    StoreError(.notAStore, "there is no Moraine store here", file: path.string)
  }

  /// The kernel's lock; it goes with the process, and what the file says is a hint only.
  ///
  /// - Returns: nil for a reader of a copy that came without a lock file: it changes nothing.
  private func takeLock(_ directory: any StorageDirectory) throws(StoreError) -> (any StorageFile)?
  {
    let file = try storing { () throws(StorageError) -> (any StorageFile)? in
      let access: FileAccess = configuration.isReadOnly ? .read : .readWrite
      if let file = try directory.openFile(Self.lockName, access) { return file }
      if configuration.isReadOnly { return nil }
      do throws(StorageError) {
        return try directory.createFile(Self.lockName)
      } catch {
        // Another process may have made it in between.
        if let file = try directory.openFile(Self.lockName, access) { return file }
        throw error
      }
    }
    guard let file else { return nil }
    let isOurs = try storing { () throws(StorageError) in
      try file.tryLock(shared: configuration.isReadOnly)
    }
    guard isOurs else { throw try lockedError(file) }
    return file
  }

  private func nameHolder(in lock: (any StorageFile)?) throws(StoreError) {
    guard let lock, !configuration.isReadOnly else { return }
    let text = Array("\(Machine.processID)\n".utf8)
    try storing { () throws(StorageError) in
      try lock.truncate(to: 0)
      try text.withBytes { (raw) throws(StorageError) in try lock.write(raw, at: 0) }
    }
  }

  private func lockedError(_ file: any StorageFile) throws(StoreError) -> StoreError {
    var text = [UInt8](repeating: 0, count: 20)
    let count = try storing { () throws(StorageError) -> Int in
      var got = 0
      var failure: StorageError?
      text.withUnsafeMutableBytes { target in
        do throws(StorageError) { got = try file.read(into: target, at: 0) } catch {
          failure = error
        }
      }
      if let failure { throw failure }
      return got
    }
    let holder = String(decoding: text[..<count].prefix { $0 != 10 }, as: UTF8.self)
    let hint = Int32(holder).map { " (process \($0), it seems)" } ?? ""
    return StoreError(
      .locked, "the store is open elsewhere\(hint); close it there first", file: path.string)
  }

  private func newManifest() -> Manifest {
    var manifest = Manifest(
      storeID: Identifier(low: Machine.randomNumber(), high: Machine.randomNumber()),
      instanceID: Identifier(low: Machine.randomNumber(), high: Machine.randomNumber()),
      hashKey: HashKey(k0: Machine.randomNumber(), k1: Machine.randomNumber()))
    manifest.generation = 1
    manifest.createdMilliseconds = Machine.wallMilliseconds()
    manifest.epochs = [
      Manifest.Epoch(
        epoch: 1, firstSequence: SequenceNumber(rawValue: 1), instanceID: manifest.instanceID)
    ]
    return manifest
  }

  /// Nil when the directory has no store yet.
  private func readManifest(
    _ directory: any StorageDirectory, _ listing: Listing
  ) throws(StoreError) -> Manifest? {
    guard listing.hasManifest else {
      guard listing.segments.isEmpty else {
        let names = listing.segments.keys.sorted().map(\.fileName).joined(separator: ", ")
        throw StoreError(
          .corrupted, "the manifest is missing beside \(names); restore it from a backup",
          file: Manifest.fileName)
      }
      return nil
    }
    let bytes = try readWhole(directory, Manifest.fileName, limit: Manifest.lengthLimit)
    return try bytes.withBytes { (raw) throws(StoreError) in
      try formatting(Manifest.fileName) { () throws(FormatError) in try Manifest(decoding: raw) }
    }
  }

  private func readWhole(
    _ directory: any StorageDirectory, _ name: String, limit: Int
  ) throws(StoreError) -> [UInt8] {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { throw .corrupted("the file vanished", name, at: 0) }
    let length = Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
    guard length <= limit else { throw .corrupted("\(length) bytes are too many", name, at: limit) }
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 8)
    defer { target.deallocate() }
    let got = try storing { () throws(StorageError) in try file.read(into: target, at: 0) }
    return Array(target[..<got])
  }
}
