import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

/// The manifest of a directory.
struct ManifestFile {
  private let directory: any StorageDirectory

  init(_ directory: any StorageDirectory) { self.directory = directory }

  /// Replaces a manifest while no store is open. Afterwards the new manifest is complete and
  /// durable, or the old one remains.
  func write(_ manifest: Manifest, over name: String) throws(StoreError) {
    assert(
      name == Manifest.fileName || name == FileName.restoring, "no manifest has such a name")
    try manifest.checkCounters()
    try storing { () throws(StorageError) in
      try createTemporary(manifest).synchronize(.full)
      try directory.rename(Manifest.temporaryFileName, to: name)
      try directory.synchronize()
    }
  }

  /// Writes a manifest to the temporary file, which is to be synced and then renamed.
  func createTemporary(_ manifest: Manifest) throws(StorageError) -> any StorageFile {
    try directory.remove(Manifest.temporaryFileName)
    let file = try directory.createFile(Manifest.temporaryFileName)
    try manifest.encoded().withBytes { (raw) throws(StorageError) in
      try file.write(raw, at: 0)
    }
    return file
  }
}

extension ManifestFile {
  /// Reads the manifest of a directory with these files.
  ///
  /// - Returns: nil when the directory contains no store yet.
  /// - Throws: `.corrupted` where segments have no manifest; `.notAStore` where a restore did not
  ///   end.
  static func read(
    _ directory: any StorageDirectory, _ listing: DirectoryContents
  ) throws(StoreError) -> Manifest? {
    if listing.hasManifest { return try decode(directory) }
    if listing.segments.isEmpty { return nil }
    guard !listing.isRestoring else {
      throw StoreError(
        .notAStore, "a restore into this directory was interrupted; start it again",
        file: directory.path.string)
    }
    let names = listing.segments.keys.sorted().map(\.fileName).joined(separator: ", ")
    throw StoreError(
      .corrupted, "the manifest of segments \(names) is missing; restore the store from a backup",
      file: Manifest.fileName)
  }

  /// Reads the manifest of a directory; nil when there is none.
  static func readPresent(
    _ directory: any StorageDirectory
  ) throws(StoreError) -> Manifest? {
    let stamp = try storing { () throws(StorageError) in
      try directory.stamp(of: Manifest.fileName)
    }
    return stamp == nil ? nil : try decode(directory)
  }

  private static func decode(_ directory: any StorageDirectory) throws(StoreError) -> Manifest {
    let bytes = try readWhole(directory, Manifest.fileName, limit: Manifest.lengthLimit)
    return try bytes.withBytes { (raw) throws(StoreError) in
      try formatting(Manifest.fileName) { () throws(FormatError) in try Manifest(decoding: raw) }
    }
  }

  private static func readWhole(
    _ directory: any StorageDirectory, _ name: String, limit: Int
  ) throws(StoreError) -> [UInt8] {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { throw .corrupted("the file is missing", name, at: 0) }
    let length = Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
    guard length <= limit else {
      throw .corrupted("the file has \(length) bytes; the limit is \(limit)", name, at: limit)
    }
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 8)
    defer { target.deallocate() }
    let got = try storing { () throws(StorageError) in try file.read(into: target, at: 0) }
    return Array(target[..<got])
  }
}

extension Manifest {
  /// Throws when a counter has reached its limit, or when figures contradict each other: no reader
  /// accepts such a manifest, and it would replace one that readers accept.
  func checkCounters() throws(StoreError) {
    guard max(epoch, generation, nextSegmentNumber) <= StoreLimits.manifestCounter,
      nextSegmentNumber > 0, lastSequence <= .max, !hasTooManyCuts
    else {
      throw StoreError(
        .limitExceeded,
        "the store has used up its epochs, generations, segment numbers or cuts; "
          + "dump it, and load it into a new one", file: Self.fileName)
    }
    guard !endsBeforeItsFigures else {
      throw .corrupted(
        "the feed horizon or a cut of the log lies after the last operation", Self.fileName, at: 80)
    }
  }
}

/// Replaces the manifest: writes and syncs a temporary file, renames it, and syncs the directory. A
/// failure before the rename leaves the old manifest in place. A failed sync of the temporary file
/// poisons, and so does any failure from the rename on.
struct ManifestPublisher {
  let directory: any StorageDirectory
  let pipeline: CommitPipeline

  func publish(_ manifest: Manifest) throws(StoreError) {
    // A segment that the manifest would list as sealed may have failed to become durable.
    if let poison = pipeline.poison { throw poison }
    try manifest.checkCounters()
    try pipeline.checkPresence()
    do throws(StorageError) {
      try synchronize(ManifestFile(directory).createTemporary(manifest))
    } catch {
      try storing { () throws(StorageError) in
        try directory.remove(Manifest.temporaryFileName)
      }
      throw StoreError(error)
    }
    var problem: StoreError?
    do throws(StorageError) {
      if try replace(by: manifest, &problem) { try directory.synchronize() }
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
    if let problem {
      pipeline.poison(problem)
      throw problem
    }
  }

  /// - Returns: false when the store was replaced; `problem` is set then.
  private func replace(
    by manifest: Manifest, _ problem: inout StoreError?
  ) throws(StorageError) -> Bool {
    if let presence = pipeline.presence.withLock({ $0 }) {
      return try presence.replaceManifest(by: manifest, &problem)
    }
    // This is the first manifest of a new store.
    try directory.rename(Manifest.temporaryFileName, to: Manifest.fileName)
    return true
  }

  private func synchronize(_ file: any StorageFile) throws(StorageError) {
    do throws(StorageError) {
      try file.synchronize(.full)
    } catch {
      pipeline.poison(StoreError(error))
      throw error
    }
  }
}
