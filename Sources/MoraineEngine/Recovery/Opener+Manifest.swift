import MoraineFormat
import MoraineStorage
import SystemPackage

extension Opener {
  func newManifest() -> Manifest {
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
  static func readManifest(
    _ directory: any StorageDirectory, _ listing: Listing
  ) throws(StoreError) -> Manifest? {
    guard listing.hasManifest else {
      guard listing.segments.isEmpty else {
        guard !listing.isRestoring else {
          throw StoreError(
            .notAStore, "a restore into this directory did not end; begin it again",
            file: directory.path.string)
        }
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

  /// The manifest that lies in a directory; nil when there is none.
  static func readManifest(
    _ directory: any StorageDirectory
  ) throws(StoreError) -> Manifest? {
    let stamp = try storing { () throws(StorageError) in
      try directory.stamp(of: Manifest.fileName)
    }
    if stamp == nil { return nil }
    let bytes = try readWhole(directory, Manifest.fileName, limit: Manifest.lengthLimit)
    return try bytes.withBytes { (raw) throws(StoreError) in
      try formatting(Manifest.fileName) { () throws(FormatError) in try Manifest(decoding: raw) }
    }
  }

  private static func readWhole(
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
