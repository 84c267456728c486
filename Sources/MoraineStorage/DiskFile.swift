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

/// An open regular file of the real disk.
///
/// The descriptor may be parked and opened again: see ``DescriptorPool``.
final class DiskFile: StorageFile, Parkable {
  let name: String
  let identity: FileIdentity
  private let directory: DiskDirectory
  private let access: FileAccess
  private let descriptor: Descriptor
  /// The mapping that a sync must flush first where files and mappings have separate caches.
  private let written = Mutex(WeakMapping())

  private struct WeakMapping {
    weak var mapping: DiskMapping?
  }

  /// The kernel's open files that are kept without a descriptor.
  private struct Kept {
    /// The open files whose write errors no sync has reported yet. The last one covers the file to
    /// its end.
    var changes: [KeptFile] = []
    /// The open file that keeps the lock.
    var lock: KeptFile?
  }

  private let kept = Mutex(Kept())
  private let mayPark = Atomic<Bool>(false)
  /// The number of bytes that were mapped for writing. Relaxed: calls store it while they use the
  /// descriptor, and it is read after an exchange that finds no such call.
  private let writableBytes = Atomic<Int>(0)
  /// The process that holds the lock through this file; 0 for none.
  private let lockHolder = Atomic<pid_t>(0)

  private static let leastKeptBytes = 1 << 20

  /// Takes ownership of the descriptor. Closes it when it does not belong to a regular file.
  init(
    name: String, descriptor: CInt, access: FileAccess, in directory: DiskDirectory
  ) throws(StorageError) {
    identity = try Self.identity(of: descriptor, name)
    self.name = name
    self.descriptor = Descriptor(descriptor)
    self.access = access
    self.directory = directory
  }

  deinit {
    // Closing alone would leave the lock with a child that another thread has just forked, until
    // the child executes its program. A child must not unlock: it shares one lock with its parent.
    if lockHolder.load(ordering: .relaxed) == getpid() { releaseLock() }
    for before in takeChanges() { before.release() }
  }

  /// Returns the file's identity. Closes the descriptor when it throws.
  private static func identity(
    of descriptor: CInt, _ name: String
  ) throws(StorageError) -> FileIdentity {
    var status = stat()
    let answer = fstat(descriptor, &status)
    let saved = answer == 0 ? Errno.invalidArgument : Errno(rawValue: errno)
    guard answer == 0, status.st_mode & S_IFMT == S_IFREG else {
      close(descriptor)
      throw StorageError("open (not a regular file)", file: name, errno: saved)
    }
    return FileIdentity(
      device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino))
  }

  /// Returns whether a descriptor leads to this file.
  private func isSelf(_ descriptor: CInt) -> Bool {
    var status = stat()
    return fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
      && UInt64(truncatingIfNeeded: status.st_dev) == identity.device
      && UInt64(status.st_ino) == identity.inode
  }

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

  private func reopen() throws(StorageError) -> CInt {
    let number = try directory.openAgain(name, access)
    guard isSelf(number) else {
      close(number)
      throw StorageError("open again", file: name, errno: .staleNFSFileHandle)
    }
    if mayPark.load(ordering: .relaxed) { DescriptorPool.current.add(self) }
    return number
  }

  func lengthBytes() throws(StorageError) -> UInt64 {
    try use { (descriptor) throws(StorageError) in try lengthBytes(descriptor) }
  }

  private func lengthBytes(_ descriptor: CInt) throws(StorageError) -> UInt64 {
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw StorageError("inspect", file: name, errno: Errno(rawValue: errno))
    }
    return UInt64(max(0, status.st_size))
  }

  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  )
    throws(StorageError) -> Int
  {
    guard let base = target.baseAddress else { return 0 }
    return try use { (descriptor) throws(StorageError) in
      try SystemCall.completing("read", name, count: target.count, at: offset) { done in
        moraine_pread(
          descriptor, base + done, target.count - done, off_t(offset) + off_t(done))
      }
    }
  }

  func announceRead(from start: Int, to end: Int) throws(StorageError) {
    guard end > start else { return }
    try use { (descriptor) throws(StorageError) in
      moraine_announce(descriptor, off_t(start), end - start)
    }
  }

  func announceSync(from start: UInt64, to end: UInt64) throws(StorageError) {
    guard end > start else { return }
    try use { (descriptor) throws(StorageError) in
      moraine_announce_sync(descriptor, off_t(start), size_t(end - start))
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    guard let base = bytes.baseAddress else { return }
    let count = bytes.count
    try use { (descriptor) throws(StorageError) in
      try SystemCall.completingAll("write", name, count: count, at: offset) { done in
        moraine_pwrite(descriptor, base + done, count - done, off_t(offset) + off_t(done))
      }
    }
  }

  func keepInPlace() throws(StorageError) {
    try use { (descriptor) throws(StorageError) in
      _ = try SystemCall.retrying("keep in place", name) { moraine_keep_in_place(descriptor) }
    }
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    guard end > start else { return }
    try use { (descriptor) throws(StorageError) in
      _ = try SystemCall.retrying("allocate", name, at: start) {
        moraine_allocate(descriptor, off_t(start), off_t(end - start))
      }
    }
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    try useWithPatience { (descriptor) throws(StorageError) in
      _ = try SystemCall.retrying("truncate", name, at: lengthBytes) {
        moraine_ftruncate(descriptor, off_t(lengthBytes))
      }
    }
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) {
    if scope == .data, try synchronizeParked() { return }
    try useWithPatience { (descriptor) throws(StorageError) in
      try synchronize(scope, descriptor)
      // Changes may have been made through earlier open files. Those may have an error to report
      // that this descriptor does not have. This call uses the descriptor, so it is not parked and
      // no further open file is kept in the meantime.
      let before = takeChanges()
      defer { for file in before { file.release() } }
      for file in before { try file.synchronize(name) }
    }
  }

  private func synchronize(_ scope: SyncScope, _ descriptor: CInt) throws(StorageError) {
    if let mapping = written.withLock({ $0.mapping }) {
      let length = min(mapping.lengthBytes, Int(clamping: try lengthBytes(descriptor)))
      _ = try SystemCall.retrying("flush mapping", name) {
        moraine_flush_mapping(mapping.base, length)
      }
    }
    _ = try SystemCall.retrying("sync", name) {
      scope == .data ? moraine_sync_data(descriptor) : moraine_sync_full(descriptor)
    }
  }

  /// Syncs a parked file without a descriptor.
  ///
  /// - Returns: false where the sync needs a descriptor.
  private func synchronizeParked() throws(StorageError) -> Bool {
    guard descriptor.isParked else { return false }
    // `holding` excludes a thread that is just parking the descriptor: bytes written through it may
    // reach further than the open files kept so far.
    let changes = descriptor.holding { $0 == nil ? takeChanges() : [] }
    guard !changes.isEmpty else { return false }
    // The kept files stay: later writes through the engine's mapping need them. The file may have
    // been opened, changed and parked again in between: then a younger kept file is the last.
    defer { kept.withLock { $0.changes = changes + $0.changes } }
    for file in changes { try file.synchronize(name) }
    return true
  }

  private func takeChanges() -> [KeptFile] {
    kept.withLock { kept in
      defer { kept.changes = [] }
      return kept.changes
    }
  }

  func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int? {
    guard let base = target.baseAddress else { return 0 }
    precondition(
      Int(bitPattern: base) % 4096 == 0 && offset % 4096 == 0 && target.count % 4096 == 0,
      "a read past the cache needs multiples of 4096")
    do throws(StorageError) {
      return try use { (descriptor) throws(StorageError) in
        // One call: after a part that ends in the middle of a block, no other read can continue.
        try SystemCall.retrying("read the medium", name, at: offset) {
          moraine_read_medium(descriptor, base, target.count, off_t(offset))
        }
      }
    } catch {
      if error.isUnsupported { return nil }
      throw error
    }
  }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
    try use { (descriptor) throws(StorageError) in
      if access == .readWrite { writableBytes.max(lengthBytes, ordering: .relaxed) }
      var code: CInt = 0
      guard let base = moraine_map(descriptor, lengthBytes, access == .readWrite, &code) else {
        throw StorageError("map", file: name, errno: Errno(rawValue: code))
      }
      let mapping = DiskMapping(base: base, lengthBytes: lengthBytes)
      #if canImport(Darwin)
        if access == .readWrite { written.withLock { $0.mapping = mapping } }
      #endif
      return mapping
    }
  }

  func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    try use { (descriptor) throws(StorageError) in
      var code: CInt = 0
      guard let base = moraine_map_privately(descriptor, lengthBytes, &code) else {
        throw StorageError("map", file: name, errno: Errno(rawValue: code))
      }
      return DiskMapping(base: base, lengthBytes: lengthBytes)
    }
  }

  func prefill(_ mapping: any FileMapping, from start: Int, to end: Int) {
    let first = CPU.pagesCovering(start)
    let end = min(end, mapping.lengthBytes)
    guard end > first else { return }
    do throws(StorageError) {
      try use { descriptor in
        moraine_prefill(descriptor, off_t(first), mapping.base + first, end - first)
      }
    } catch {
      // Prefilling is a hint.
    }
  }

  /// A child of the process that took the lock must not release it.
  func unlock() {
    if lockHolder.load(ordering: .relaxed) == getpid() { releaseLock() }
  }

  private func releaseLock() {
    descriptor.holding { descriptor in
      if let descriptor { moraine_unlock(descriptor) }
      kept.withLock { kept in
        kept.lock?.release()
        kept.lock = nil
      }
      // Not earlier: the pool would then park the descriptor as one without a lock, and a copy of
      // the descriptor would keep the lock.
      lockHolder.store(0, ordering: .relaxed)
    }
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    do throws(StorageError) {
      try use { (descriptor) throws(StorageError) in
        _ = try SystemCall.retrying("lock", name) { moraine_lock(descriptor, shared) }
        lockHolder.store(getpid(), ordering: .relaxed)
      }
      return true
    } catch {
      if error.errno == .wouldBlock { return false }
      throw error
    }
  }

  /// Whether the file has a descriptor, for tests.
  var hasDescriptor: Bool { !descriptor.isParked }

  var isLocked: Bool { lockHolder.load(ordering: .relaxed) == getpid() }
}

extension DiskFile {
  func allowParking() {
    guard Descriptor.canPark, !mayPark.exchange(true, ordering: .relaxed) else { return }
    DescriptorPool.current.add(self)
  }

  func takeReference() -> Bool { descriptor.takeReference() }

  func park() -> Bool {
    descriptor.park { descriptor in
      // No call uses the descriptor, so no call locks the file now.
      if isLocked { return false }
      return keepChanges(of: descriptor)
    }
  }

  /// Keeps the open file of a descriptor that was opened for writing.
  ///
  /// - Returns: false where the descriptor must stay.
  private func keepChanges(of descriptor: CInt) -> Bool {
    // The file is kept even where all bytes are synced: no other file gets the number of an inode
    // that is in use.
    guard access == .readWrite else { return true }
    let mapped = writableBytes.load(ordering: .relaxed)
    var length = 0
    do throws(StorageError) { length = Int(clamping: try lengthBytes(descriptor)) } catch {
      return false
    }
    return kept.withLock { kept in
      // An open file that was not synced since it was kept reports older errors, and newer ones
      // too.
      if let last = kept.changes.last, last.covers(length) { return true }
      // The mapping leaves room for the file to grow, so that few open files are kept.
      let length = max(mapped, 2 * length, Self.leastKeptBytes)
      guard let file = KeptFile(descriptor, lengthBytes: length) else { return false }
      kept.changes.append(file)
      return true
    }
  }

  /// Moves the lock to an open file that only a mapping keeps, and closes the descriptor.
  ///
  /// A child between `fork` and `exec` may have a copy of the descriptor through which the lock was
  /// taken. The old lock is therefore unlocked explicitly, so that the lock ends when this process
  /// releases it. In between the file is not locked for a moment: the caller holds the directory's
  /// lock.
  ///
  /// - Returns: whether the descriptor is closed and the lock is held.
  func parkLock(in directory: CInt, shared: Bool) -> Bool {
    if descriptor.isParked { return kept.withLock { $0.lock != nil } }
    return descriptor.park { descriptor in
      guard isLocked else { return false }
      if kept.withLock({ $0.lock != nil }) { return true }
      let fresh = moraine_openat(directory, name, access == .read ? O_RDONLY : O_RDWR, 0)
      guard fresh >= 0 else { return false }
      defer { close(fresh) }
      guard isSelf(fresh), let lock = KeptFile(fresh, lengthBytes: 1) else { return false }
      moraine_unlock(descriptor)
      guard Self.lock(fresh, shared: shared) else {
        lock.release()
        // If that fails too, the next attempt to park locks it again.
        _ = Self.lock(descriptor, shared: shared)
        return false
      }
      kept.withLock { $0.lock = lock }
      return true
    }
  }

  /// Locks a descriptor. It tries for a while, because another opening may hold the lock for the
  /// moment in which it finds the directory locked.
  static func lock(_ descriptor: CInt, shared: Bool) -> Bool {
    for _ in 0..<200 {
      if moraine_lock(descriptor, shared) >= 0 { return true }
      SystemClock.sleep(nanoseconds: 50_000)
    }
    return false
  }
}
