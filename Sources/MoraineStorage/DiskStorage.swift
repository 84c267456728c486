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
        "find the current directory", file: path.string, errno: Errno(rawValue: errno))
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
    // What is there already may be a file or a link, and then the caller must hear of it. A
    // directory that is there already may have been made a moment ago, by the user or by a process
    // that died.
    guard let directory = try openDirectory(path) else {
      throw StorageError("create directory", file: path.string, errno: .noSuchFileOrDirectory)
    }
    try directory.synchronizeParent()
  }

  package func checkWritable(_ path: FilePath) throws(StorageError) {
    if try canCreate(in: path) { return }
    if try canCreate(in: Self.parent(of: path)) { return }
    throw StorageError("create directory", file: path.string, errno: .noSuchFileOrDirectory)
  }

  /// - Returns: false when nothing has that name.
  /// - Throws: when the system says that nothing can be created there.
  private func canCreate(in path: FilePath) throws(StorageError) -> Bool {
    do throws(StorageError) {
      _ = try SystemCall.retrying("create files in", path.string) {
        path.withPlatformString { moraine_may_create($0) }
      }
    } catch {
      if error.errno == .noSuchFileOrDirectory { return false }
      // Other answers may mean that the question is not permitted, as in some containers. The first
      // write then says what is wrong.
      if error.errno == .permissionDenied || error.errno == .readOnlyFileSystem { throw error }
    }
    return true
  }

  /// The directory that the last component of a path is in.
  private static func parent(of path: FilePath) -> FilePath {
    let parent = path.removingLastComponent()
    return parent.isEmpty ? FilePath(".") : parent
  }

  /// What a path leads to; nil where nothing has that name. The last component is not followed
  /// where it is a symbolic link: a store's directory is none.
  package func identity(of path: FilePath) throws(StorageError) -> FileIdentity? {
    try identity(path) { lstat($0, &$1) }
  }

  /// As ``identity(of:)``, of the directory that the last component is in. Links are followed.
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
