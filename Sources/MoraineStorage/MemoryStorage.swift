import Synchronization
package import SystemPackage

/// Directories that live in memory, for stores that need not outlast the process.
///
/// Paths are names and no more: a directory needs no parent, and `a` and `./a` are two. What is
/// written is there at once, so synchronizing does nothing.
package final class MemoryStorage: Storage {
  private let directories = Mutex<[String: MemoryDirectory.Node]>([:])
  let space: MemorySpace

  /// - Parameters:
  ///   - capacityBytes: what all files together may take, in whole blocks of 4 KiB each, as on a
  ///     small disk.
  ///   - creationBytes: what must be free when a file is created, as on XFS.
  package init(capacityBytes: Int = .max, creationBytes: Int = 0) {
    space = MemorySpace(capacityBytes: capacityBytes, creationBytes: creationBytes)
  }

  package func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    guard let node = node(at: path) else { return nil }
    return MemoryDirectory(path: path, node: node, storage: self)
  }

  package func createDirectory(_ path: FilePath) throws(StorageError) {
    directories.withLock { directories in
      if directories[path.string] == nil { directories[path.string] = .init(in: space) }
    }
  }

  /// Gives a directory another path, as someone with a file manager would below an open store.
  /// What was at `target` is gone for everyone who does not have it open.
  package func renameDirectory(_ source: FilePath, to target: FilePath) throws(StorageError) {
    try directories.withLock { directories throws(StorageError) in
      guard let node = directories.removeValue(forKey: source.string) else {
        throw StorageError("rename", file: source.string, errno: .noSuchFileOrDirectory)
      }
      directories[target.string] = node
    }
  }

  func node(at path: FilePath) -> MemoryDirectory.Node? {
    directories.withLock { $0[path.string] }
  }
}
