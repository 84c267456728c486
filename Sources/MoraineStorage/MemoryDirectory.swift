import Synchronization
import SystemPackage

/// One opening of a directory of ``MemoryStorage``, with the path by which it was opened.
final class MemoryDirectory: StorageDirectory {
  /// The directory itself, which all its openings share.
  final class Node: Sendable {
    let files = Mutex<[String: MemoryNode]>([:])
    /// A file without bytes: only its lock is used.
    let lock: MemoryNode

    init(in space: MemorySpace) { lock = MemoryNode(in: space) }
  }

  let path: FilePath
  private let node: Node
  private let storage: MemoryStorage

  init(path: FilePath, node: Node, storage: MemoryStorage) {
    self.path = path
    self.node = node
    self.storage = storage
  }

  deinit { unlock() }

  func entries() throws(StorageError) -> [DirectoryEntry] {
    let files = node.files.withLock { files in
      files.map { name, file in
        DirectoryEntry(name: name, kind: .regular, lengthBytes: UInt64(file.lengthBytes))
      }
    }
    let directories = storage.directoryNames(in: path).map {
      DirectoryEntry(name: $0, kind: .directory, lengthBytes: 0)
    }
    return files + directories
  }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    guard storage.space.free >= storage.space.creationBytes else {
      throw StorageError("create", file: name, errno: .noSpace)
    }
    let file = MemoryNode(in: storage.space)
    try node.files.withLock { files throws(StorageError) in
      guard files[name] == nil else {
        throw StorageError("create", file: name, errno: .fileExists)
      }
      files[name] = file
    }
    return MemoryFile(name: name, access: .readWrite, node: file)
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    guard let file = node.files.withLock({ $0[name] }) else { return nil }
    return MemoryFile(name: name, access: access, node: file)
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    try node.files.withLock { files throws(StorageError) in
      guard let file = files[source] else {
        throw StorageError("rename to \(target)", file: source, errno: .noSuchFileOrDirectory)
      }
      // As POSIX demands: where both are names of one file, the file keeps both.
      if files[target] === file { return }
      files[source] = nil
      files[target] = file
    }
  }

  func renameIfAbsent(_ source: String, to target: String) throws(StorageError) -> Bool {
    try node.files.withLock { files throws(StorageError) in
      guard let file = files[source] else {
        throw StorageError("rename to \(target)", file: source, errno: .noSuchFileOrDirectory)
      }
      if let other = files[target], other !== file { return false }
      files[source] = nil
      files[target] = file
      return true
    }
  }

  func remove(_ name: String) throws(StorageError) {
    _ = node.files.withLock { $0.removeValue(forKey: name) }
  }

  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool {
    guard linking, let target = target as? MemoryDirectory else { return false }
    guard let file = node.files.withLock({ $0[name] }) else {
      throw StorageError("share as \(newName)", file: name, errno: .noSuchFileOrDirectory)
    }
    try target.node.files.withLock { files throws(StorageError) in
      guard files[newName] == nil else {
        throw StorageError("share", file: newName, errno: .fileExists)
      }
      files[newName] = file
    }
    return true
  }

  func synchronize() throws(StorageError) {}

  func synchronizeParent() throws(StorageError) {}

  func freeBytes() throws(StorageError) -> UInt64 { UInt64(storage.space.free) }

  func creationBytes() throws(StorageError) -> UInt64 { UInt64(storage.space.creationBytes) }

  func isInPlace() throws(StorageError) -> Bool {
    storage.node(at: path) === node
  }

  func extent(of name: String) throws(StorageError) -> FileExtent? {
    try stamp(of: name).map { FileExtent(identity: $0.identity, lengthBytes: $0.lengthBytes) }
  }

  func stamp(of name: String) throws(StorageError) -> FileStamp? {
    node.files.withLock { $0[name] }?.stamp
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    node.lock.tryLock(ObjectIdentifier(self), shared: shared)
  }

  func unlock() { node.lock.unlock(ObjectIdentifier(self)) }
}
