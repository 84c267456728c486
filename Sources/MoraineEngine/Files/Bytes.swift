extension UnsafeRawBufferPointer {
  @inline(__always)
  func elementsEqualFast(_ other: UnsafeRawBufferPointer) -> Bool {
    guard count == other.count else { return false }
    var offset = 0
    while offset &+ 8 <= count {
      let left = loadUnaligned(fromByteOffset: offset, as: UInt64.self)
      guard left == other.loadUnaligned(fromByteOffset: offset, as: UInt64.self) else {
        return false
      }
      offset &+= 8
    }
    while offset < count {
      guard self[offset] == other[offset] else { return false }
      offset &+= 1
    }
    return true
  }
}

extension Array where Element == UInt8 {
  /// `withUnsafeBytes` with typed errors.
  @inline(__always)
  func withBytes<Result, Failure: Error>(
    _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try withUnsafeBufferPointer { (elements) throws(Failure) in
      try body(UnsafeRawBufferPointer(elements))
    }
  }
}

extension ArraySlice {
  /// Returns the first position from which on the condition holds. It holds for no element before.
  func partitioningIndex(where belongs: (Element) -> Bool) -> Int {
    var (low, high) = (startIndex, endIndex)
    while low < high {
      let middle = low + (high - low) / 2
      if belongs(self[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}

/// A buffer that grows with the largest use. A very large buffer is freed when less is needed.
final class ScratchBuffer {
  /// Short at first: a short range has its own buffer, and memory of more than a kilobyte takes
  /// longer to get.
  private var buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1024, alignment: 16)

  deinit { buffer.deallocate() }

  func reserve(_ count: Int) -> UnsafeMutableRawBufferPointer {
    if buffer.count < count || (buffer.count > 1 << 22 && count < 1 << 20) {
      buffer.deallocate()
      buffer = .allocate(byteCount: max(count, 4096), alignment: 16)
    }
    return UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
  }
}
