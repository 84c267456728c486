import SystemPackage

extension StorageDirectory {
  /// Opens a file for reading and writing, and creates it when it does not exist.
  package func openOrCreateFile(_ name: String) throws(StorageError) -> any StorageFile {
    if let file = try openFile(name, .readWrite) { return file }
    do throws(StorageError) {
      return try createFile(name)
    } catch {
      // Another process may have created the file in between.
      if let file = try openFile(name, .readWrite) { return file }
      throw error
    }
  }

  /// Takes the directory's lock like ``tryLock(shared:)``. Returns true also where the file system
  /// has no locks of directories, as on NFS: then only the lock on a file remains.
  ///
  /// - Parameter standIn: the file whose lock takes the place of a parked directory's lock.
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
