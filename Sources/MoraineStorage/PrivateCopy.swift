/// A file's bytes, read into memory.
///
/// Safety of `@unchecked Sendable`: as for ``DiskMapping``, which this type replaces. The
/// properties never change, and the engine controls which thread accesses which bytes.
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
  /// Returns the same as ``mapPrivately(lengthBytes:)``, but reads all bytes at once.
  package func readPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    let memory = try ZeroedMemory(for: name, byteCount: max(lengthBytes, 1))
    let copy = PrivateCopy(memory, lengthBytes: lengthBytes)
    let target = UnsafeMutableRawBufferPointer(start: copy.base, count: lengthBytes)
    // Bytes beyond the file's end stay zero, and no checksum will match them.
    _ = try read(into: target, at: 0)
    return copy
  }

  package func mapPrivately(lengthBytes: Int) throws(StorageError) -> any FileMapping {
    try readPrivately(lengthBytes: lengthBytes)
  }
}
