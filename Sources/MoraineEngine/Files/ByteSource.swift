import MoraineFormat
import MoraineStorage

/// The bytes of one segment in order, read through its mapping or a window at a time.
final class ByteSource {
  private static let windowBytes = 1 << 20
  private static let firstBytes = 4096
  private let file: any StorageFile
  private let name: String
  private let base: UnsafeMutableRawPointer?
  let length: Int
  private var window = UnsafeMutableRawBufferPointer.allocate(byteCount: 0, alignment: 16)
  private var windowStart = 0
  private var windowCount = 0

  init(file: any StorageFile, name: String, length: Int, mapping: (any FileMapping)?) {
    self.file = file
    self.name = name
    self.length = length
    base = mapping?.base
    assert(length <= mapping?.lengthBytes ?? length, "a mapping is shorter than its segment")
  }

  deinit { window.deallocate() }

  /// Bytes of memory that the source holds now, besides a mapping.
  var heldBytes: Int { window.count }

  /// Frees the window. The next call reads again.
  func release() {
    window.deallocate()
    window = .allocate(byteCount: 0, alignment: 16)
    (windowStart, windowCount) = (0, 0)
  }

  /// Returns `count` bytes at `offset`, valid until the next call. The caller knows that they lie
  /// within ``length``.
  func bytes(at offset: Int, count: Int) throws(StoreError) -> UnsafeRawPointer {
    assert(
      offset >= 0 && count >= 0 && offset + count <= length, "bytes lie outside of their source")
    if let base { return UnsafeRawPointer(base + offset) }
    if offset < windowStart || offset + count > windowStart + windowCount {
      // The first read is for a header. Of many segments nothing else is needed.
      let ahead = windowCount == 0 ? Self.firstBytes : Self.windowBytes
      try load(at: offset, count: min(length - offset, max(count, ahead)))
    }
    guard let start = window.baseAddress else { fatalError("the window of a byte source is empty") }
    return UnsafeRawPointer(start + (offset - windowStart))
  }

  /// Returns the checksum of the last bytes before `end`, at most ``CheckpointHeader/tailLength``
  /// of them.
  ///
  /// - Parameter first: the earliest offset at which these bytes may begin.
  func tailChecksum(from first: Int, to end: Int) throws(StoreError) -> UInt32 {
    let start = max(first, end - CheckpointHeader.tailLength)
    guard start < end else { return Checksum.of([]) }
    let bytes = try bytes(at: start, count: end - start)
    return Checksum.of(UnsafeRawBufferPointer(start: bytes, count: end - start))
  }

  private func load(at offset: Int, count: Int) throws(StoreError) {
    if window.count < count {
      window.deallocate()
      window = .allocate(byteCount: count, alignment: 16)
    }
    let target = UnsafeMutableRawBufferPointer(rebasing: window[..<count])
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(offset))
    }
    guard got == count else {
      throw StoreError.corrupted(
        "the file became shorter while it was read", name, at: offset + got)
    }
    windowStart = offset
    windowCount = count
  }
}
