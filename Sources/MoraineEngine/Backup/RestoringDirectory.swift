import MoraineFormat
import MoraineStorage
import SystemPackage

/// A view of a directory into which a store is being restored. The view shows the file `RESTORING`
/// as the manifest. The manifest keeps the name `RESTORING` until the whole store is checked.
final class RestoringDirectory: StorageDirectory {
  private let base: any StorageDirectory
  private let lock: DirectoryLock

  init(_ base: any StorageDirectory, _ lock: DirectoryLock) {
    self.base = base
    self.lock = lock
  }

  var path: FilePath { base.path }
  var identity: FileIdentity? { base.identity }

  private func name(_ name: String) -> String {
    name == Manifest.fileName ? FileName.restoring : name
  }

  func entries() throws(StorageError) -> [DirectoryEntry] {
    try base.entries().map { entry in
      var entry = entry
      if entry.name == FileName.restoring { entry.name = Manifest.fileName }
      return entry
    }
  }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    try base.createFile(self.name(name))
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    // The restore already holds the lock, through this same file.
    if name == FileName.lock { return lock.file }
    return try base.openFile(self.name(name), access)
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    try base.rename(name(source), to: name(target))
  }

  func remove(_ name: String) throws(StorageError) { try base.remove(self.name(name)) }
  func synchronize() throws(StorageError) { try base.synchronize() }
  func synchronizeParent() throws(StorageError) { try base.synchronizeParent() }
  func freeBytes() throws(StorageError) -> UInt64 { try base.freeBytes() }
  func creationBytes() throws(StorageError) -> UInt64 { try base.creationBytes() }
  func isInPlace() throws(StorageError) -> Bool { try base.isInPlace() }

  func stamp(of name: String) throws(StorageError) -> FileStamp? {
    try base.stamp(of: self.name(name))
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool { try base.tryLock(shared: shared) }

  /// Does nothing. The restore owns the lock, and holds it longer than the store that it checks.
  func unlock() {}
}

/// A storage whose only directory is a ``RestoringDirectory``.
struct RestoringStorage: Storage {
  let directory: RestoringDirectory

  func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    directory
  }

  func createDirectory(_ path: FilePath) throws(StorageError) {}
}
