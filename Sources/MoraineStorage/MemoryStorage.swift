import Synchronization
package import SystemPackage

/// Directories in memory, for stores that need not outlast the process.
///
/// Paths are only names: a directory needs no parent, and `a` and `./a` are two directories. A
/// directory lists those whose paths continue its own by one component. Writes take effect at once,
/// so synchronizing does nothing.
package final class MemoryStorage: Storage {
  private let directories = Mutex<[String: MemoryDirectory.Node]>([:])
  let space: MemorySpace

  /// - Parameters:
  ///   - capacityBytes: the space of all files together, in whole blocks of 4 KiB for each file, as
  ///     on a small disk.
  ///   - creationBytes: the number of bytes that must be free when a file is created, as on XFS.
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

  /// Gives a directory another path, as a user's file manager may do to an open store. A directory
  /// at `target` is removed; objects that have it open can still use it.
  package func renameDirectory(_ source: FilePath, to target: FilePath) throws(StorageError) {
    try directories.withLock { directories throws(StorageError) in
      guard let node = directories.removeValue(forKey: source.string) else {
        throw StorageError("rename", file: source.string, errno: .noSuchFileOrDirectory)
      }
      directories[target.string] = node
    }
  }

  /// The names of the directories whose paths continue a path by one component.
  func directoryNames(in path: FilePath) -> [String] {
    let start = path.string.hasSuffix("/") ? path.string : path.string + "/"
    return directories.withLock { directories in
      directories.keys.compactMap { other in
        guard other.utf8.starts(with: start.utf8) else { return nil }
        let name = other.utf8.dropFirst(start.utf8.count)
        return name.isEmpty || name.contains(UInt8(ascii: "/")) ? nil : String(name)
      }
    }
  }

  func node(at path: FilePath) -> MemoryDirectory.Node? {
    directories.withLock { $0[path.string] }
  }
}
