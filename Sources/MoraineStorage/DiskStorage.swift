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

  package func createDirectory(_ path: FilePath) throws(StorageError) {
    do throws(StorageError) {
      _ = try SystemCall.retrying("create directory", path.string) {
        path.withPlatformString { moraine_mkdir($0, 0o700) }
      }
    } catch {
      // What is there already may be a file or a link, and then the caller must hear of it.
      if error.errno == .fileExists, try openDirectory(path) != nil { return }
      throw error
    }
    try synchronizeParent(of: path)
  }

  private func synchronizeParent(of path: FilePath) throws(StorageError) {
    let parent = path.removingLastComponent()
    let name = parent.isEmpty ? FilePath(".") : parent
    // A parent that is a symbolic link is fine: only the store itself must not be one.
    let descriptor = try SystemCall.retrying("open directory", name.string) { () -> CInt in
      let opened = name.withPlatformString { open($0, O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
      return opened < 0 ? -errno : opened
    }
    defer { close(descriptor) }
    _ = try SystemCall.retrying("sync directory", name.string) { moraine_sync_full(descriptor) }
  }
}
