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

/// An open directory of the real disk. Every name is resolved against its descriptor.
///
/// The descriptor may be parked and opened again: see ``DescriptorPool``.
final class DiskDirectory: StorageDirectory, Parkable {
  let path: FilePath
  private let descriptor: Descriptor
  private let device: UInt64
  private let inode: UInt64

  private struct Parking {
    var isAllowed = false
    weak var lock: DiskFile?
    var standIn: String?
    /// Holds the lock of `standIn` in place of the directory's lock.
    var kept: KeptFile?
    /// Whether the directory's lock is a shared one, when the directory is locked.
    var isShared = false
  }

  private let parking = Mutex(Parking())
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
    self.descriptor = Descriptor(descriptor)
    device = UInt64(truncatingIfNeeded: status.st_dev)
    inode = UInt64(status.st_ino)
  }

  deinit { unlock() }

  private func use<Result>(
    _ body: (CInt) throws(StorageError) -> Result
  ) throws(StorageError) -> Result {
    try descriptor.use(reopening: { () throws(StorageError) in try reopen() }, body)
  }

  private func useWithPatience<Result>(
    _ body: (CInt) throws(StorageError) -> Result
  ) throws(StorageError) -> Result {
    try descriptor.useWithPatience(
      reopening: { () throws(StorageError) in try reopen() }, body)
  }

  func entries() throws(StorageError) -> [DirectoryEntry] {
    // A separate descriptor, because reading moves its position.
    let copy = try use { (descriptor) throws(StorageError) in
      try SystemCall.retrying("open directory", path.string) {
        moraine_openat(descriptor, ".", O_RDONLY | O_DIRECTORY, 0)
      }
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

  /// Returns nil when the name no longer exists.
  private func entry(named name: String) throws(StorageError) -> DirectoryEntry? {
    guard let status = try status(of: name) else { return nil }
    let kind: EntryKind =
      switch status.st_mode & S_IFMT {
      case S_IFREG: .regular
      case S_IFDIR: .directory
      case S_IFLNK: .symbolicLink
      default: .other
      }
    return DirectoryEntry(name: name, kind: kind, lengthBytes: UInt64(max(0, status.st_size)))
  }

  /// Inspects what a name leads to; returns false when the name does not exist. Where the directory
  /// is parked, the path is used.
  ///
  /// - Parameter call: a call of the system that returns a negative error.
  private func inspect(
    _ name: String, _ call: (_ directory: CInt, _ name: String) -> CInt
  ) throws(StorageError) -> Bool {
    func isThere(_ descriptor: CInt, _ name: String) throws(StorageError) -> Bool {
      let code = call(descriptor, name)
      if code >= 0 { return true }
      let error = Errno(rawValue: -code)
      if error == .noSuchFileOrDirectory { return false }
      throw StorageError("inspect", file: name, errno: error)
    }
    if descriptor.isParked, try isInPlace() {
      return try isThere(AT_FDCWD, path.appending(name).string)
    }
    return try use { (descriptor) throws(StorageError) in try isThere(descriptor, name) }
  }

  /// Returns the status of what a name leads to; nil when the name does not exist.
  private func status(of name: String) throws(StorageError) -> stat? {
    var status = stat()
    let isThere = try inspect(name) { directory, name in
      fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno
    }
    return isThere ? status : nil
  }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    DescriptorPool.current.makeRoom()
    let opened = try use { (descriptor) throws(StorageError) in
      try SystemCall.retrying("create", name) {
        moraine_openat(descriptor, name, O_RDWR | O_CREAT | O_EXCL, 0o600)
      }
    }
    return try DiskFile(name: name, descriptor: opened, access: .readWrite, in: self)
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    do throws(StorageError) {
      let opened = try open(name, access)
      return try DiskFile(name: name, descriptor: opened, access: access, in: self)
    } catch {
      if error.errno == .noSuchFileOrDirectory { return nil }
      throw error
    }
  }

  private func open(_ name: String, _ access: FileAccess) throws(StorageError) -> CInt {
    DescriptorPool.current.makeRoom()
    return try use { (descriptor) throws(StorageError) in
      try SystemCall.retrying("open", name) {
        moraine_openat(descriptor, name, access == .read ? O_RDONLY : O_RDWR, 0)
      }
    }
  }

  /// Opens a file again whose descriptor was parked.
  func openAgain(_ name: String, _ access: FileAccess) throws(StorageError) -> CInt {
    do throws(StorageError) { return try open(name, access) } catch {
      switch error.errno {
      // The name leads to nothing, or to a link, a directory or a socket.
      case .noSuchFileOrDirectory, .tooManySymbolicLinkLevels, .isDirectory,
        .noSuchAddressOrDevice:
        throw StorageError("open again", file: name, errno: .staleNFSFileHandle)
      default: throw error
      }
    }
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    try useWithPatience { (descriptor) throws(StorageError) in
      _ = try SystemCall.retrying("rename to \(target)", source) {
        moraine_renameat(descriptor, source, target)
      }
    }
  }

  func renameIfAbsent(_ source: String, to target: String) throws(StorageError) -> Bool {
    guard let identity = try extent(of: source)?.identity else {
      throw StorageError("rename to \(target)", file: source, errno: .noSuchFileOrDirectory)
    }
    do throws(StorageError) {
      try useWithPatience { (descriptor) throws(StorageError) in
        _ = try SystemCall.retrying("rename to \(target)", source) {
          moraine_rename_if_absent(descriptor, source, target)
        }
      }
      return true
    } catch {
      switch error.errno {
      case .fileExists, .noSuchFileOrDirectory:
        // The system may have repeated a call whose answer was lost, as NFS does.
        guard try isNamed(target, identity) else {
          if error.errno == .fileExists { return false }
          throw error
        }
        // The file has the new name; that it also has the old one is no failure.
        do throws(StorageError) { try remove(source) } catch {}
        return true
      case .notSupported:
        throw StorageError(
          "rename to \(target), if that name is free (the file system has neither hard links nor "
            + "a rename that keeps an existing file)", file: source, errno: error.errno)
      default: throw error
      }
    }
  }

  /// Returns whether a name leads to a file.
  ///
  /// - Throws: `EIO` for every failure: the file may have the name.
  private func isNamed(_ name: String, _ file: FileIdentity) throws(StorageError) -> Bool {
    do throws(StorageError) {
      return try extent(of: name)?.identity == file
    } catch {
      throw StorageError(error.operation, file: error.file, errno: .ioError)
    }
  }

  func remove(_ name: String) throws(StorageError) {
    do throws(StorageError) {
      try use { (descriptor) throws(StorageError) in
        _ = try SystemCall.retrying("remove", name) { moraine_unlinkat(descriptor, name) }
      }
    } catch {
      guard error.errno == .noSuchFileOrDirectory else { throw error }
    }
  }

  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool {
    guard let target = target as? DiskDirectory else { return false }
    return try use { (descriptor) throws(StorageError) in
      try target.use { (targetDescriptor) throws(StorageError) in
        try SystemCall.retrying("share as \(newName)", name) {
          moraine_share(descriptor, name, targetDescriptor, newName, linking)
        } > 0
      }
    }
  }

  func synchronize() throws(StorageError) {
    try useWithPatience { (descriptor) throws(StorageError) in
      _ = try SystemCall.retrying("sync directory", path.string) { moraine_sync_full(descriptor) }
    }
  }

  /// Opens the parent through the directory's own descriptor, because a path may lead elsewhere by
  /// now. Where the parent may not be read, or belongs to a file system that syncs no directories,
  /// syncs the whole file system.
  func synchronizeParent() throws(StorageError) {
    do throws(StorageError) {
      let parent = try use { (descriptor) throws(StorageError) in
        try SystemCall.retrying("open parent directory", path.string) {
          moraine_openat(descriptor, "..", O_RDONLY | O_DIRECTORY, 0)
        }
      }
      defer { close(parent) }
      _ = try SystemCall.retrying("sync parent directory", path.string) {
        moraine_sync_full(parent)
      }
    } catch {
      let isRefused = [.permissionDenied, .notPermitted, .readOnlyFileSystem].contains(error.errno)
      guard isRefused || error.isUnsupported else { throw error }
      try use { (descriptor) throws(StorageError) in
        _ = try SystemCall.retrying("sync file system", path.string) {
          moraine_sync_file_system(descriptor)
        }
      }
    }
  }

  func freeBytes() throws(StorageError) -> UInt64 {
    try use { (descriptor) throws(StorageError) in
      try UInt64(
        SystemCall.retrying("get the free space", path.string) { moraine_free_bytes(descriptor) })
    }
  }

  func creationBytes() throws(StorageError) -> UInt64 {
    try use { (descriptor) throws(StorageError) in
      try UInt64(
        SystemCall.retrying("get the type of the file system", path.string) {
          moraine_creation_bytes(descriptor)
        })
    }
  }

  func watchFile(
    _ name: String, _ body: @escaping @Sendable () -> Void
  ) throws(StorageError) -> (any DirectoryWatch)? {
    try use { descriptor in DirectoryEvents.watchFile(name, in: descriptor, body) }
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

  func extent(of name: String) throws(StorageError) -> FileExtent? {
    var extent = moraine_extent()
    guard try inspect(name, { moraine_inspect($0, $1, &extent) }) else { return nil }
    return FileExtent(
      identity: FileIdentity(device: extent.device, inode: extent.inode),
      lengthBytes: extent.length)
  }

  func stamp(of name: String) throws(StorageError) -> FileStamp? {
    guard let status = try status(of: name) else { return nil }
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

  func watch(
    _ isOfInterest: @escaping @Sendable (String) -> Bool, _ body: @escaping @Sendable () -> Void
  ) -> (any DirectoryWatch)? {
    // Without a watch, the checks at syncs and renames detect changes.
    do throws(StorageError) {
      return try use { descriptor in DirectoryEvents.watch(descriptor, isOfInterest, body) }
    } catch { return nil }
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    do throws(StorageError) {
      try use { (descriptor) throws(StorageError) in
        _ = try SystemCall.retrying("lock", path.string) { moraine_lock(descriptor, shared) }
        parking.withLock { $0.isShared = shared }
        lockHolder.store(getpid(), ordering: .relaxed)
      }
      return true
    } catch {
      if error.errno == .wouldBlock { return false }
      throw error
    }
  }

  func isLocked(by standIn: String, shared: Bool) throws(StorageError) -> Bool {
    guard let file = try openFile(standIn, .read) else { return false }
    // The lock ends when `file` is released.
    return try !file.tryLock(shared: shared)
  }

  /// A child of the process that took the lock must not release it, as for files.
  func unlock() {
    guard lockHolder.load(ordering: .relaxed) == getpid() else { return }
    descriptor.holding { descriptor in
      if let descriptor { moraine_unlock(descriptor) }
      takeKept()?.release()
      // Not earlier: the pool would then park the descriptor as one without a lock, and a copy of
      // the descriptor would keep the lock.
      lockHolder.store(0, ordering: .relaxed)
    }
  }

  private func takeKept() -> KeptFile? {
    parking.withLock { parking in
      defer { parking.kept = nil }
      return parking.kept
    }
  }
}

extension DiskDirectory {
  func allowParking(with lock: any StorageFile, standIn: String?) {
    guard Descriptor.canPark else { return }
    let isFirst = parking.withLock { parking in
      defer { parking.isAllowed = true }
      parking.lock = lock as? DiskFile
      parking.standIn = standIn
      return !parking.isAllowed
    }
    if isFirst { DescriptorPool.current.add(self) }
  }

  func takeReference() -> Bool { descriptor.takeReference() }

  func park() -> Bool {
    let (lock, standIn, isShared) = parking.withLock { ($0.lock, $0.standIn, $0.isShared) }
    return descriptor.park { descriptor in
      // No call uses the descriptor, so no call locks the directory now.
      let isLocked = lockHolder.load(ordering: .relaxed) == getpid()
      guard isLocked || lock?.isLocked == true else { return true }
      // For a shared lock it cannot be tested whether the mapping keeps it.
      guard isLocked, !isShared, let lock, let standIn,
        let kept = keep(standIn, in: descriptor, isShared)
      else { return false }
      guard lock.parkLock(in: descriptor, shared: isShared) else {
        kept.release()
        return false
      }
      parking.withLock { $0.kept = kept }
      // A forked child may have a copy of the descriptor, so closing alone would not end the lock.
      moraine_unlock(descriptor)
      return true
    }
  }

  /// Locks a file through a mapping alone.
  ///
  /// - Returns: nil where that fails, and where the mapping does not keep the lock: file systems
  ///   that lie over others, such as overlayfs, map the file below, which is another open file.
  private func keep(_ standIn: String, in directory: CInt, _ isShared: Bool) -> KeptFile? {
    guard let kept = mapLocked(standIn, in: directory, isShared) else { return nil }
    let other = moraine_openat(directory, standIn, O_RDONLY, 0)
    defer { if other >= 0 { close(other) } }
    if other >= 0, moraine_lock(other, !isShared) == -EWOULDBLOCK { return kept }
    kept.release()
    return nil
  }

  private func mapLocked(_ standIn: String, in directory: CInt, _ isShared: Bool) -> KeptFile? {
    let file = moraine_openat(directory, standIn, O_RDONLY, 0)
    guard file >= 0 else { return nil }
    defer { close(file) }
    guard let kept = KeptFile(file, lengthBytes: 1) else { return nil }
    guard moraine_lock(file, isShared) >= 0 else {
      kept.release()
      return nil
    }
    return kept
  }

  private func reopen() throws(StorageError) -> CInt {
    DescriptorPool.current.makeRoom()
    let number: CInt
    do throws(StorageError) {
      number = try SystemCall.retrying("open directory again", path.string) {
        path.withPlatformString { moraine_open_directory($0) }
      }
    } catch {
      switch error.errno {
      case .noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels: throw replaced()
      default: throw error
      }
    }
    var status = stat()
    let isSame =
      fstat(number, &status) == 0 && UInt64(truncatingIfNeeded: status.st_dev) == device
      && UInt64(status.st_ino) == inode
    guard isSame, lockAgain(number) else {
      close(number)
      throw replaced()
    }
    DescriptorPool.current.add(self)
    return number
  }

  private func replaced() -> StorageError {
    StorageError("open directory again", file: path.string, errno: .staleNFSFileHandle)
  }

  /// Moves the lock from the stand-in file back to the directory.
  ///
  /// A forked child does not move the lock, because the child would then hold it itself.
  ///
  /// - Returns: false when another process has locked the directory. That is possible only after
  ///   `LOCK` was deleted and the manifest was replaced.
  private func lockAgain(_ number: CInt) -> Bool {
    let (isKept, isShared) = parking.withLock { ($0.kept != nil, $0.isShared) }
    guard isKept, lockHolder.load(ordering: .relaxed) == getpid() else { return true }
    guard DiskFile.lock(number, shared: isShared) else { return false }
    takeKept()?.release()
    return true
  }
}
