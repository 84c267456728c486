import MoraineStorage
import SystemPackage

final class FaultDirectory: StorageDirectory {
  private let base: any StorageDirectory
  private let storage: FaultStorage

  init(_ base: any StorageDirectory, _ storage: FaultStorage) {
    self.base = base
    self.storage = storage
  }

  var path: FilePath { base.path }
  var identity: FileIdentity? { base.identity }

  func entries() throws(StorageError) -> [DirectoryEntry] {
    _ = try storage.meet(.entries, path.string)
    return try base.entries()
  }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    _ = try storage.meet(.createFile, name)
    return FaultFile(try base.createFile(name), name, storage)
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    _ = try storage.meet(.openFile, name)
    guard let file = try base.openFile(name, access) else { return nil }
    return FaultFile(file, name, storage)
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    _ = try storage.meet(.rename, source)
    try base.rename(source, to: target)
  }

  func renameIfAbsent(_ source: String, to target: String) throws(StorageError) -> Bool {
    _ = try storage.meet(.rename, source)
    return try base.renameIfAbsent(source, to: target)
  }

  func remove(_ name: String) throws(StorageError) {
    _ = try storage.meet(.remove, name)
    try base.remove(name)
  }

  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool {
    _ = try storage.meet(.share, name)
    guard let target = target as? FaultDirectory else { return false }
    return try base.share(name, into: target.base, as: newName, linking: linking)
  }

  func synchronize() throws(StorageError) {
    _ = try storage.meet(.synchronizeDirectory, path.string)
    try base.synchronize()
  }

  func synchronizeParent() throws(StorageError) {
    _ = try storage.meet(.synchronizeParent, path.string)
    try base.synchronizeParent()
  }

  func creationBytes() throws(StorageError) -> UInt64 { try base.creationBytes() }

  func freeBytes() throws(StorageError) -> UInt64 {
    _ = try storage.meet(.freeBytes, path.string)
    return try base.freeBytes()
  }

  func watchFile(
    _ name: String, _ body: @escaping @Sendable () -> Void
  ) throws(StorageError) -> (any DirectoryWatch)? {
    try base.watchFile(name, body)
  }

  func isInPlace() throws(StorageError) -> Bool {
    _ = try storage.meet(.isInPlace, path.string)
    return try base.isInPlace()
  }

  func extent(of name: String) throws(StorageError) -> FileExtent? {
    _ = try storage.meet(.stamp, name)
    return try base.extent(of: name)
  }

  func stamp(of name: String) throws(StorageError) -> FileStamp? {
    _ = try storage.meet(.stamp, name)
    return try base.stamp(of: name)
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    _ = try storage.meet(.lock, path.string)
    return try base.tryLock(shared: shared)
  }

  func unlock() { base.unlock() }

  func watch(
    _ isOfInterest: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? { base.watch(isOfInterest, body) }
}
