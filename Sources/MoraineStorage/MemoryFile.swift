import SystemPackage

/// One opening of a file of ``MemoryStorage``, with its access and its lock.
final class MemoryFile: StorageFile {
  let name: String
  private let access: FileAccess
  private let node: MemoryNode

  init(name: String, access: FileAccess, node: MemoryNode) {
    self.name = name
    self.access = access
    self.node = node
  }

  deinit { node.unlock(ObjectIdentifier(self)) }

  var identity: FileIdentity { node.stamp.identity }

  func lengthBytes() throws(StorageError) -> UInt64 { UInt64(node.lengthBytes) }

  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  )
    throws(StorageError) -> Int
  {
    node.read(into: target, at: Int(offset))
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    try checkWritable("write", .badFileDescriptor)
    try check(node.write(bytes, at: Int(offset)), "write", at: offset)
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    guard end > start else { return }
    try checkWritable("allocate", .badFileDescriptor)
    try check(node.extend(to: Int(end)), "allocate", at: start)
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    try checkWritable("truncate", .invalidArgument)
    try check(node.truncate(to: Int(lengthBytes)), "truncate", at: lengthBytes)
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) {}

  /// Reads the memory, which is the medium.
  func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int? { try read(into: target, at: offset) }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
    if access == .readWrite { try checkWritable("map", .permissionDenied) }
    guard lengthBytes > 0 else {
      throw StorageError("map", file: name, errno: .invalidArgument)
    }
    guard let memory = node.map(lengthBytes: lengthBytes) else {
      throw StorageError("map", file: name, errno: .noMemory)
    }
    return MemoryMapping(node: node, memory: memory, lengthBytes: lengthBytes)
  }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    node.tryLock(ObjectIdentifier(self), shared: shared)
  }

  func unlock() { node.unlock(ObjectIdentifier(self)) }

  private func checkWritable(_ operation: String, _ errno: Errno) throws(StorageError) {
    guard access == .readWrite else {
      throw StorageError(operation, file: name, errno: errno)
    }
  }

  private func check(
    _ refusal: Errno?, _ operation: String, at offset: UInt64
  ) throws(StorageError) {
    guard let refusal else { return }
    throw StorageError(operation, file: name, errno: refusal, offset: offset)
  }
}

/// A mapping of a file of ``MemoryStorage``. It keeps the file alive.
final class MemoryMapping: FileMapping {
  private let node: MemoryNode
  private let memory: ZeroedMemory
  let lengthBytes: Int

  init(node: MemoryNode, memory: ZeroedMemory, lengthBytes: Int) {
    self.node = node
    self.memory = memory
    self.lengthBytes = lengthBytes
  }

  var base: UnsafeMutableRawPointer { memory.base }

  func prefault(from start: Int, to end: Int) {}
}
