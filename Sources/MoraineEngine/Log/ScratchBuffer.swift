/// Bytes that grow with the largest use and are given back when they were very many.
final class ScratchBuffer {
  private var buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 16)

  deinit { buffer.deallocate() }

  func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
    if buffer.count < count || (buffer.count > 1 << 22 && count < 1 << 20) {
      buffer.deallocate()
      buffer = .allocate(byteCount: max(count, 4096), alignment: 16)
    }
    return UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
  }
}
