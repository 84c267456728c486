import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

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
