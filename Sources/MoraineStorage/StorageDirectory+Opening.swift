import SystemPackage

extension StorageDirectory {
  /// Opens a file for reading and writing, and makes it when there is none.
  package func openOrCreateFile(_ name: String) throws(StorageError) -> any StorageFile {
    if let file = try openFile(name, .readWrite) { return file }
    do throws(StorageError) {
      return try createFile(name)
    } catch {
      // Another process may have made it in between.
      if let file = try openFile(name, .readWrite) { return file }
      throw error
    }
  }

  /// As ``tryLock(shared:)``; true also where the file system has no locks of directories, as on
  /// NFS. The lock on a file is all there is then.
  ///
  /// - Parameter standIn: the file whose lock stands for that of a parked directory.
  package func tryLockIfSupported(
    shared: Bool, standIn: String
  ) throws(StorageError) -> Bool {
    do throws(StorageError) {
      guard try tryLock(shared: shared) else { return false }
      if try !isLocked(by: standIn, shared: shared) { return true }
      unlock()
      return false
    } catch {
      let isRefused = [.badFileDescriptor, .noLocks, .isDirectory, .permissionDenied]
        .contains(error.errno)
      if isRefused || error.isUnsupported { return true }
      unlock()
      throw error
    }
  }
}
