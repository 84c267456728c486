import CMoraineShims
import Synchronization
import SystemPackage

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// An open directory of the real disk; every name is resolved against its descriptor.
final class DiskDirectory: StorageDirectory {
  let path: FilePath
  private let descriptor: CInt
  private let device: UInt64
  private let inode: UInt64
  /// The process that holds the lock through this object; 0 for none.
  private let lockHolder = Atomic<pid_t>(0)

  var identity: FileIdentity? { FileIdentity(device: device, inode: inode) }

  init(path: FilePath, descriptor: CInt) throws(StorageError) {
    var status = stat()
    let answer = fstat(descriptor, &status)
    let saved = Errno(rawValue: errno)
    guard answer == 0 else {
      close(descriptor)
      throw StorageError("inspect", file: path.string, errno: saved)
    }
    self.path = path
    self.descriptor = descriptor
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(status.st_ino)
  }

  deinit {
    unlock()
    close(descriptor)
  }

  func entries() throws(StorageError) -> [DirectoryEntry] {
    // A descriptor of its own: reading moves its position.
    let copy = try SystemCall.retrying("open directory", path.string) {
      moraine_openat(descriptor, ".", O_RDONLY | O_DIRECTORY, 0)
    }
    guard let stream = fdopendir(copy) else {
      let saved = Errno(rawValue: errno)
      close(copy)
      throw StorageError("list directory", file: path.string, errno: saved)
    }
    defer { closedir(stream) }
    var entries: [DirectoryEntry] = []
    while true {
      errno = 0
      guard let next = readdir(stream) else {
        guard errno == 0 else {
          let saved = Errno(rawValue: errno)
          throw StorageError("list directory", file: path.string, errno: saved)
        }
        return entries
      }
      let name = withUnsafePointer(to: &next.pointee.d_name) { pointer in
        pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name == "." || name == ".." { continue }
      if let entry = try entry(named: name) { entries.append(entry) }
    }
  }

  /// Nil when the name vanished meanwhile.
  private func entry(named name: String) throws(StorageError) -> DirectoryEntry? {
    var status = stat()
    guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
      let saved = Errno(rawValue: errno)
      if saved == .noSuchFileOrDirectory { return nil }
      throw StorageError("inspect", file: name, errno: saved)
    }
    let kind: EntryKind =
      switch status.st_mode & S_IFMT {
      case S_IFREG: .regular
      case S_IFDIR: .directory
      case S_IFLNK: .symbolicLink
      default: .other
      }
    return DirectoryEntry(name: name, kind: kind, lengthBytes: UInt64(max(0, status.st_size)))
  }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    try DiskFile(
      name: name,
      descriptor: SystemCall.retrying("create", name) {
        moraine_openat(descriptor, name, O_RDWR | O_CREAT | O_EXCL, 0o600)
      })
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    do throws(StorageError) {
      let opened = try SystemCall.retrying("open", name) {
        moraine_openat(descriptor, name, access == .read ? O_RDONLY : O_RDWR, 0)
      }
      return try DiskFile(name: name, descriptor: opened)
    } catch {
      if error.errno == .noSuchFileOrDirectory { return nil }
      throw error
    }
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    _ = try SystemCall.retrying("rename to \(target)", source) {
      moraine_renameat(descriptor, source, target)
    }
  }

  func remove(_ name: String) throws(StorageError) {
    do throws(StorageError) {
      _ = try SystemCall.retrying("remove", name) { moraine_unlinkat(descriptor, name) }
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
    }
  }

  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool {
    guard let target = target as? DiskDirectory else { return false }
    return try SystemCall.retrying("share as \(newName)", name) {
      moraine_share(descriptor, name, target.descriptor, newName, linking)
    } > 0
  }

  func synchronize() throws(StorageError) {
    _ = try SystemCall.retrying("sync directory", path.string) { moraine_sync_full(descriptor) }
  }

  /// By the directory's own descriptor: a path may lead elsewhere by now. Where the parent may not
  /// be read, or is of a file system that syncs no directories, the whole file system is synced.
  func synchronizeParent() throws(StorageError) {
    do throws(StorageError) {
      let parent = try SystemCall.retrying("open parent directory", path.string) {
        moraine_openat(descriptor, "..", O_RDONLY | O_DIRECTORY, 0)
      }
      defer { close(parent) }
      _ = try SystemCall.retrying("sync parent directory", path.string) {
        moraine_sync_full(parent)
      }
    } catch {
      let isRefused = [.permissionDenied, .notPermitted, .readOnlyFileSystem].contains(error.errno)
      guard isRefused || error.isUnsupported else { throw error }
      _ = try SystemCall.retrying("sync file system", path.string) {
        moraine_sync_file_system(descriptor)
      }
    }
  }

  func freeBytes() throws(StorageError) -> UInt64 {
    try UInt64(
      SystemCall.retrying("ask for free space", path.string) { moraine_free_bytes(descriptor) })
  }

  func creationBytes() throws(StorageError) -> UInt64 {
    try UInt64(
      SystemCall.retrying("ask for the file system", path.string) {
        moraine_creation_bytes(descriptor)
      })
  }

  func events(ofFile name: String) throws(StorageError) -> (any FileEvents)? {
    DiskEvents(directory: descriptor, name: name)
  }

  func isInPlace() throws(StorageError) -> Bool {
    var status = stat()
    guard path.withPlatformString({ lstat($0, &status) }) == 0 else {
      let saved = Errno(rawValue: errno)
      if saved == .noSuchFileOrDirectory || saved == .notDirectory { return false }
      throw StorageError("inspect", file: path.string, errno: saved)
    }
    return UInt64(truncatingIfNeeded: status.st_dev) == device && UInt64(status.st_ino) == inode
  }

  func stamp(of name: String) throws(StorageError) -> FileStamp? {
    var status = stat()
    guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
      let saved = Errno(rawValue: errno)
      if saved == .noSuchFileOrDirectory { return nil }
      throw StorageError("inspect", file: name, errno: saved)
    }
    #if canImport(Darwin)
      let time = status.st_ctimespec
    #else
      let time = status.st_ctim
    #endif
    let changed =
      UInt64(truncatingIfNeeded: time.tv_sec) &* 1_000_000_000
      &+ UInt64(truncatingIfNeeded: time.tv_nsec)
    return FileStamp(
      identity: FileIdentity(
        device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino)),
      lengthBytes: UInt64(max(0, status.st_size)), changed: changed)
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    do throws(StorageError) {
      _ = try SystemCall.retrying("lock", path.string) { moraine_lock(descriptor, shared) }
      lockHolder.store(getpid(), ordering: .relaxed)
      return true
    } catch {
      if error.errno == .wouldBlock { return false }
      throw error
    }
  }

  /// As for files: a child of the process that took the lock must not give it back.
  func unlock() {
    guard lockHolder.exchange(0, ordering: .relaxed) == getpid() else { return }
    moraine_unlock(descriptor)
  }

  func watch(
    _ isOfInterest: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? {
    DirectoryEvents.watch(descriptor, isOfInterest, body)
  }
}
