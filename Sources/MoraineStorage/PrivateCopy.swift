/// A file's bytes, read into memory.
///
/// Safety of `@unchecked Sendable`: as ``DiskMapping``, whose place it takes: the properties never
/// change; who may touch which bytes when is the engine's matter.
final class PrivateCopy: FileMapping, @unchecked Sendable {
  private let memory: ZeroedMemory
  let lengthBytes: Int

  init(_ memory: ZeroedMemory, lengthBytes: Int) {
    self.memory = memory
    self.lengthBytes = lengthBytes
  }

  deinit { memory.deallocate() }

  var base: UnsafeMutableRawPointer { memory.base }

  func prefault(from start: Int, to end: Int) {}
}

extension StorageFile {
  /// As ``mapPrivately(lengthBytes:)``, all read at once.
  package func readPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    let memory = try ZeroedMemory(for: name, byteCount: max(lengthBytes, 1))
    let copy = PrivateCopy(memory, lengthBytes: lengthBytes)
    let target = UnsafeMutableRawBufferPointer(start: copy.base, count: lengthBytes)
    // What is not there stays zero, and no checksum will match it.
    _ = try read(into: target, at: 0)
    return copy
  }

  package func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    try readPrivately(lengthBytes: lengthBytes)
  }
}
