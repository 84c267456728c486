import MoraineFormat
import MoraineStorage
import SystemPackage

/// The kernel's lock on a directory in which no store is open yet.
struct DirectoryLock {
  let file: any StorageFile
  private let directory: any StorageDirectory

  /// - Throws: `.locked` when a store, a backup or a restore holds the lock.
  init(_ directory: any StorageDirectory) throws(StoreError) {
    file = try Opener.makeLockFile(directory)
    self.directory = directory
    let isOurs = try storing { [file] () throws(StorageError) in
      guard try file.tryLock(shared: false) else { return false }
      return try directory.tryLockIfSupported(shared: false, standIn: Manifest.fileName)
    }
    guard isOurs else {
      throw StoreError(
        .locked, "a store, a backup or a restore uses this directory; wait until it ends",
        file: directory.path.string)
    }
  }

  /// Releases the lock immediately. A late thread may still hold a reference to the file, so the
  /// end of the last reference would be too late.
  func free() {
    file.unlock()
    directory.unlock()
  }
}

extension Storage {
  /// Opens a directory that a backup or a restore will fill. Creates the directory when it is
  /// missing.
  func openTarget(_ path: FilePath) throws(StoreError) -> any StorageDirectory {
    let directory = try storing { () throws(StorageError) -> (any StorageDirectory)? in
      try createDirectory(path)
      return try openDirectory(path)
    }
    guard let directory else {
      throw StoreError(.io, "the directory was removed", file: path.string)
    }
    return directory
  }
}
