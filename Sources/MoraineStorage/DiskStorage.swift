import CMoraineShims
package import SystemPackage

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// The real disk.
package struct DiskStorage: Storage {
  package init() {}

  package func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    let path = try absolute(path)
    DescriptorPool.current.readLimit()
    DescriptorPool.current.makeRoom()
    do throws(StorageError) {
      let descriptor = try SystemCall.retrying("open directory", path.string) {
        path.withPlatformString { moraine_open_directory($0) }
      }
      return try DiskDirectory(path: path, descriptor: descriptor)
    } catch {
      if error.errno == .noSuchFileOrDirectory { return nil }
      throw error
    }
  }

  package func absolute(_ path: FilePath) throws(StorageError) -> FilePath {
    if path.isAbsolute { return path }
    guard let current = getcwd(nil, 0) else {
      throw StorageError(
        "get the current directory", file: path.string, errno: Errno(rawValue: errno))
    }
    defer { free(current) }
    return FilePath(platformString: current).pushing(path)
  }

  package func createDirectory(_ path: FilePath) throws(StorageError) {
    do throws(StorageError) {
      _ = try SystemCall.retrying("create directory", path.string) {
        path.withPlatformString { moraine_mkdir($0, 0o700) }
      }
    } catch {
      guard error.errno == .fileExists else { throw error }
    }
    // An existing name may be that of a file or a link, and the caller must get that error. An
    // existing directory may have been created a moment ago, by the user or by a process that died.
    guard let directory = try openDirectory(path) else {
      throw StorageError("create directory", file: path.string, errno: .noSuchFileOrDirectory)
    }
    try directory.synchronizeParent()
  }

  package func removeEmptyDirectory(_ path: FilePath) throws(StorageError) {
    do throws(StorageError) {
      _ = try SystemCall.retrying("remove directory", path.string) {
        path.withPlatformString { rmdir($0) }
      }
    } catch {
      switch error.errno {
      // Another program has put files there, or was faster.
      case .noSuchFileOrDirectory, .directoryNotEmpty, .fileExists: return
      default: throw error
      }
    }
  }

  package func checkWritable(_ path: FilePath) throws(StorageError) {
    if try canCreate(in: path) { return }
    if try canCreate(in: Self.parent(of: path)) { return }
    throw StorageError("create directory", file: path.string, errno: .noSuchFileOrDirectory)
  }

  /// - Returns: false when the path does not exist.
  /// - Throws: when the system reports that nothing can be created there.
  private func canCreate(in path: FilePath) throws(StorageError) -> Bool {
    do throws(StorageError) {
      _ = try SystemCall.retrying("create files in", path.string) {
        path.withPlatformString { moraine_may_create($0) }
      }
    } catch {
      if error.errno == .noSuchFileOrDirectory { return false }
      // Other errors may mean that the question itself is not permitted, as in some containers. The
      // first write then reports the error.
      if error.errno == .permissionDenied || error.errno == .readOnlyFileSystem { throw error }
    }
    return true
  }

  /// Returns the directory that contains the last component of a path.
  private static func parent(of path: FilePath) -> FilePath {
    let parent = path.removingLastComponent()
    return parent.isEmpty ? FilePath(".") : parent
  }

  /// Returns the identity of what a path leads to; nil where the path does not exist. A symbolic
  /// link in the last component is not followed: a store's directory is not a link.
  package func identity(of path: FilePath) throws(StorageError) -> FileIdentity? {
    try identity(path) { lstat($0, &$1) }
  }

  /// Returns the identity of the directory that contains the last component. Links are followed.
  package func identityOfParent(of path: FilePath) throws(StorageError) -> FileIdentity? {
    try identity(Self.parent(of: path)) { stat($0, &$1) }
  }

  private func identity(
    _ path: FilePath, _ ask: (UnsafePointer<CInterop.PlatformChar>, inout stat) -> CInt
  ) throws(StorageError) -> FileIdentity? {
    var status = stat()
    guard path.withPlatformString({ ask($0, &status) }) == 0 else {
      let saved = Errno(rawValue: errno)
      if saved == .noSuchFileOrDirectory || saved == .notDirectory { return nil }
      throw StorageError("inspect", file: path.string, errno: saved)
    }
    return FileIdentity(
      device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino))
  }
}
