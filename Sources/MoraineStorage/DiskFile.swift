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
final class DiskFile: StorageFile {
  let name: String
  let identity: FileIdentity
  private let descriptor: CInt
  /// Where files and mappings have caches of their own, a sync must first hand over the mapping's.
  private let written = Mutex(WeakMapping())

  private struct WeakMapping {
    weak var mapping: DiskMapping?
  }
  /// The process that holds the lock through this file; 0 for none.
  private let lockHolder = Atomic<pid_t>(0)

  /// Takes the descriptor over; closes it when it is not a regular file's.
  init(name: String, descriptor: CInt) throws(StorageError) {
    var status = stat()
    let answer = fstat(descriptor, &status)
    let saved = answer == 0 ? Errno.invalidArgument : Errno(rawValue: errno)
    guard answer == 0, status.st_mode & S_IFMT == S_IFREG else {
      close(descriptor)
      throw StorageError("open (not a regular file)", file: name, errno: saved)
    }
    self.name = name
    self.descriptor = descriptor
    identity = FileIdentity(
      device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino))
  }

  deinit {
    // Closing alone would leave the lock with a child that another thread just forked, until that
    // becomes its program. A child must not unlock: the parent's lock and its own are one.
    if lockHolder.load(ordering: .relaxed) == getpid() { moraine_unlock(descriptor) }
    close(descriptor)
  }

  func lengthBytes() throws(StorageError) -> UInt64 {
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
    return try SystemCall.completing("read", name, count: target.count, at: offset) { done in
      moraine_pread(
        descriptor, base + done, target.count - done, off_t(offset) + off_t(done))
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    guard let base = bytes.baseAddress else { return }
    let count = bytes.count
    try SystemCall.completingAll("write", name, count: count, at: offset) { done in
      moraine_pwrite(descriptor, base + done, count - done, off_t(offset) + off_t(done))
    }
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    guard end > start else { return }
    _ = try SystemCall.retrying("allocate", name, at: start) {
      moraine_allocate(descriptor, off_t(start), off_t(end - start))
    }
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    _ = try SystemCall.retrying("truncate", name, at: lengthBytes) {
      moraine_ftruncate(descriptor, off_t(lengthBytes))
    }
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) {
    if let mapping = written.withLock({ $0.mapping }) {
      let length = min(mapping.lengthBytes, Int(clamping: try lengthBytes()))
      _ = try SystemCall.retrying("flush mapping", name) {
        moraine_flush_mapping(mapping.base, length)
      }
    }
    _ = try SystemCall.retrying("sync", name) {
      scope == .data ? moraine_sync_data(descriptor) : moraine_sync_full(descriptor)
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
      // One call: a part that ends in the middle of a block cannot be gone on from.
      return try SystemCall.retrying("read the medium", name, at: offset) {
        moraine_read_medium(descriptor, base, target.count, off_t(offset))
      }
    } catch {
      if error.isUnsupported { return nil }
      throw error
    }
  }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
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

  func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    var code: CInt = 0
    guard let base = moraine_map_privately(descriptor, lengthBytes, &code) else {
      throw StorageError("map", file: name, errno: Errno(rawValue: code))
    }
    return DiskMapping(base: base, lengthBytes: lengthBytes)
  }

  func prefill(_ mapping: any FileMapping, from start: Int, to end: Int) {
    let first = Machine.pagesCovering(start)
    let end = min(end, mapping.lengthBytes)
    guard end > first else { return }
    moraine_prefill(descriptor, off_t(first), mapping.base + first, end - first)
  }

  func unlock() {
    lockHolder.store(0, ordering: .relaxed)
    moraine_unlock(descriptor)
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    do throws(StorageError) {
      _ = try SystemCall.retrying("lock", name) { moraine_lock(descriptor, shared) }
      lockHolder.store(getpid(), ordering: .relaxed)
      return true
    } catch {
      if error.errno == .wouldBlock { return false }
      throw error
    }
  }
}
