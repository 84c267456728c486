import MoraineStorage
import SystemPackage

final class FaultFile: StorageFile {
  private let base: any StorageFile
  let name: String
  private let storage: FaultStorage

  init(_ base: any StorageFile, _ name: String, _ storage: FaultStorage) {
    self.base = base
    self.name = name
    self.storage = storage
  }

  var identity: FileIdentity { base.identity }

  func lengthBytes() throws(StorageError) -> UInt64 {
    _ = try storage.meet(.length, name)
    return try base.lengthBytes()
  }

  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int {
    _ = try storage.meet(.read, name)
    return try base.read(into: target, at: offset)
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    guard let part = try storage.meet(.write, name) else {
      return try base.write(bytes, at: offset)
    }
    let done = min(part.lengthBytes, bytes.count)
    try base.write(UnsafeRawBufferPointer(rebasing: bytes[..<done]), at: offset)
    throw StorageError(
      "write (fault)", file: name, errno: part.errno, offset: offset + UInt64(done))
  }

  func keepInPlace() throws(StorageError) {
    if storage.isCopyOnWrite {
      throw StorageError("keep in place (fault)", file: name, errno: .notSupported)
    }
    try base.keepInPlace()
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    guard let part = try storage.meet(.allocate, name) else {
      return try base.allocate(from: start, to: end)
    }
    try base.allocate(from: start, to: min(end, start + UInt64(part.lengthBytes)))
    throw StorageError("allocate (fault)", file: name, errno: part.errno, offset: start)
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    _ = try storage.meet(.truncate, name)
    try base.truncate(to: lengthBytes)
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) {
    let operation = scope == .data ? StorageEvent.Operation.synchronizeData : .synchronizeFull
    guard let fault = try storage.meet(operation, name) else { return try base.synchronize(scope) }
    (base as? SimulatedFile)?.dropUnsynced()
    throw StorageError("\(operation.rawValue) (fault)", file: name, errno: fault.errno)
  }

  func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int? {
    _ = try storage.meet(.readMedium, name)
    return try base.readMedium(into: target, at: offset)
  }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
    _ = try storage.meet(.map, name)
    return try base.map(lengthBytes: lengthBytes, access)
  }

  func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    _ = try storage.meet(.map, name)
    return try base.mapPrivately(lengthBytes: lengthBytes)
  }

  func unlock() { base.unlock() }

  func tryLock(shared: Bool) throws(StorageError) -> Bool {
    _ = try storage.meet(.lock, name)
    return try base.tryLock(shared: shared)
  }
}
