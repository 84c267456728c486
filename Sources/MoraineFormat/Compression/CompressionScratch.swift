/// A buffer for compressed bytes. It grows to the largest value.
struct CompressionScratch: ~Copyable {
  private(set) var bytes: UnsafeMutableRawBufferPointer

  private static let firstBytes = 4096
  /// ``trim`` releases a larger buffer.
  private static let keptBytes = 1 << 20

  init() { bytes = .allocate(byteCount: Self.firstBytes, alignment: 16) }

  deinit { bytes.deallocate() }

  /// Makes room for `count` bytes. The bytes of the buffer are lost.
  mutating func reserve(_ count: Int) {
    guard bytes.count < count else { return }
    replace(byteCount: count)
  }

  mutating func trim() {
    if bytes.count > Self.keptBytes { replace(byteCount: Self.firstBytes) }
  }

  private mutating func replace(byteCount: Int) {
    bytes.deallocate()
    bytes = .allocate(byteCount: byteCount, alignment: 16)
  }
}
