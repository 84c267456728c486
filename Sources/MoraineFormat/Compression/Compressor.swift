import CLZ4

/// An LZ4 compressor for one value at a time. It keeps its state and scratch space between calls.
///
/// `LZ4_resetStream_fast` keeps the match table instead of clearing 16 KiB for every small value.
/// One thread at a time.
package struct Compressor: ~Copyable {
  private let stream: UnsafeMutablePointer<LZ4_stream_t>
  private var scratch: CompressionScratch

  /// The shortest value that is compressed. LZ4's end rules leave nothing to save in shorter ones.
  @inlinable
  package static var shortestLengthBytes: Int { 24 }

  package init() {
    guard let stream = LZ4_createStream() else { fatalError("out of memory: LZ4 state") }
    self.stream = stream
    scratch = CompressionScratch()
  }

  deinit { LZ4_freeStream(stream) }

  /// Returns the compressed bytes, valid until the next call, or nil when compression does not save
  /// at least an eighth.
  ///
  /// - Complexity: O(value).
  package mutating func compress(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    guard value.count >= Self.shortestLengthBytes, value.count <= StoreLimits.valueLengthBytes,
      let source = value.baseAddress
    else { return nil }
    LZ4_resetStream_fast(stream)
    return scratch.compress(
      source, count: value.count, with: stream, acceleration: Self.acceleration(value.count))
  }

  /// Returns LZ4's acceleration: 1 searches hardest. A short value seldom has other matches than
  /// plain repetition, and both settings find that. On 20,000 package records of about 220 bytes
  /// LZ4's default saves 1 %; this setting saves nothing, in less than half the instructions.
  /// Compaction finds what the values share with each other.
  private static func acceleration(_ count: Int) -> Int32 { count < 256 ? 4 : 1 }

  /// Releases the space that a very large value needed.
  package mutating func trim() { scratch.trim() }
}

/// A buffer for compressed bytes. It grows to the largest value.
struct CompressionScratch: ~Copyable {
  private var bytes: UnsafeMutableRawBufferPointer

  /// ``trim`` releases a larger buffer.
  private static let keptBytes = 1 << 20

  init() { bytes = .allocate(byteCount: 4096, alignment: 16) }

  deinit { bytes.deallocate() }

  /// Returns the compressed bytes, or nil when they are not an eighth shorter.
  ///
  /// - Parameters:
  ///   - stream: the state that the value begins with. Every value needs a reset or copied state.
  ///   - acceleration: 1 searches hardest, as `lz4.h` describes it.
  mutating func compress(
    _ source: UnsafeRawPointer, count: Int, with stream: UnsafeMutablePointer<LZ4_stream_t>,
    acceleration: Int32 = 1
  ) -> UnsafeRawBufferPointer? {
    let most = count &- count / 8
    let room = Self.room(for: count, most: most)
    reserve(room)
    let stored = LZ4_compress_fast_continue(
      stream, source.assumingMemoryBound(to: CChar.self),
      bytes.baseAddress!.assumingMemoryBound(to: CChar.self), Int32(count), Int32(room),
      acceleration)
    if stored <= 0 { LZ4_initStream(stream, MemoryLayout<LZ4_stream_t>.size) }
    guard stored > 0, Int(stored) <= most else { return nil }
    return UnsafeRawBufferPointer(rebasing: bytes[..<Int(stored)])
  }

  /// Length of a value from which on clearing LZ4's state takes little beside its compression.
  private static let longBytes = 64 << 10

  /// Returns the room that LZ4 gets. A call that runs out of room leaves a state that must be
  /// cleared, so short values have room for the worst case. A long value without repetitions is not
  /// copied only to find that it did not become shorter.
  private static func room(for count: Int, most: Int) -> Int {
    count < longBytes ? Int(LZ4_compressBound(Int32(count))) : most
  }

  mutating func trim() {
    guard bytes.count > Self.keptBytes else { return }
    bytes.deallocate()
    bytes = .allocate(byteCount: 4096, alignment: 16)
  }

  private mutating func reserve(_ count: Int) {
    guard bytes.count < count else { return }
    bytes.deallocate()
    bytes = .allocate(byteCount: max(count, 4096), alignment: 16)
  }
}
