import MoraineFormat
import MoraineStorage
import SystemPackage

/// Puts a new manifest in the old one's place: temporary written and synced, renamed, directory
/// synced. Before the rename a failure changes nothing; from then on it poisons.
struct ManifestPublisher {
  let directory: any StorageDirectory
  let pipeline: CommitPipeline

  func publish(_ manifest: Manifest) throws(StoreError) {
    // What it would list as sealed may have failed to become durable.
    if let poison = pipeline.poison { throw poison }
    do throws(StorageError) {
      try writeTemporary(manifest.encoded())
    } catch {
      try storing { () throws(StorageError) in
        try directory.remove(Manifest.temporaryFileName)
      }
      throw StoreError(error)
    }
    do throws(StorageError) {
      guard try directory.isInPlace() else {
        throw StorageError(
          "find (it was moved or replaced while open)", file: directory.path.string,
          errno: .staleNFSFileHandle)
      }
      try directory.rename(Manifest.temporaryFileName, to: Manifest.fileName)
      try directory.synchronize()
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
  }

  private func writeTemporary(_ bytes: [UInt8]) throws(StorageError) {
    try directory.remove(Manifest.temporaryFileName)
    let file = try directory.createFile(Manifest.temporaryFileName)
    try bytes.withBytes { (raw) throws(StorageError) in try file.write(raw, at: 0) }
    do throws(StorageError) {
      try file.synchronize(.full)
    } catch {
      pipeline.poison(StoreError(error))
      throw error
    }
  }
}
