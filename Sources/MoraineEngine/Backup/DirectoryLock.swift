import MoraineFormat
import MoraineStorage
import SystemPackage

/// The kernel's lock on a directory that no store is open in yet.
struct DirectoryLock {
  let file: any StorageFile
  private let directory: any StorageDirectory

  /// - Throws: `.locked` when somebody has it.
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

  /// At once, and not when the last who knows the file has forgotten it: a thread may be late.
  func free() {
    file.unlock()
    directory.unlock()
  }
}

extension Storage {
  /// A directory that a backup or a restore will fill; made when it is missing.
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
