#if LIBLZ4 && !PortableLZ4
  import CLZ4

  /// An LZ4 compressor for one value at a time, of `liblz4`. It keeps its state and scratch space
  /// between calls.
  ///
  /// `LZ4_resetStream_fast` keeps the match table instead of clearing 16 KiB for every small value.
  /// One thread at a time.
  package struct SystemCompressor: ~Copyable {
    private let stream: UnsafeMutablePointer<LZ4_stream_t>
    private var scratch: CompressionScratch

    /// The shortest value that is compressed. LZ4's end rules leave nothing to save in shorter
    /// ones.
    package static var shortestLengthBytes: Int { CompressionRules.shortestLengthBytes }

    package init() {
      guard let stream = LZ4_createStream() else { fatalError("out of memory: LZ4 state") }
      self.stream = stream
      scratch = CompressionScratch()
    }

    deinit { LZ4_freeStream(stream) }

    /// Returns the compressed bytes, valid until the next call, or nil when compression does not
    /// save at least an eighth.
    ///
    /// - Complexity: O(value).
    package mutating func compress(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
      guard CompressionRules.isCompressible(value.count), let source = value.baseAddress else {
        return nil
      }
      LZ4_resetStream_fast(stream)
      return scratch.compress(
        source, count: value.count, with: stream,
        acceleration: CompressionRules.acceleration(value.count))
    }

    /// Releases the space that a very large value needed.
    package mutating func trim() { scratch.trim() }
  }

  extension CompressionScratch {
    /// Returns the compressed bytes, or nil when they are not an eighth shorter.
    ///
    /// - Parameters:
    ///   - stream: the state that the value begins with. Every value needs a reset or copied state.
    ///   - acceleration: 1 searches hardest, as `lz4.h` describes it.
    mutating func compress(
      _ source: UnsafeRawPointer, count: Int, with stream: UnsafeMutablePointer<LZ4_stream_t>,
      acceleration: Int = 1
    ) -> UnsafeRawBufferPointer? {
      let most = CompressionRules.most(count)
      let room = Self.room(for: count, most: most)
      reserve(room)
      let stored = LZ4_compress_fast_continue(
        stream, source.assumingMemoryBound(to: CChar.self),
        bytes.baseAddress!.assumingMemoryBound(to: CChar.self), Int32(count), Int32(room),
        Int32(acceleration))
      if stored <= 0 { LZ4_initStream(stream, MemoryLayout<LZ4_stream_t>.size) }
      guard stored > 0, Int(stored) <= most else { return nil }
      return UnsafeRawBufferPointer(rebasing: bytes[..<Int(stored)])
    }

    /// Length of a value from which on clearing LZ4's state takes little beside its compression.
    private static var longBytes: Int { 64 << 10 }

    /// Returns the room that LZ4 gets. A call that runs out of room leaves a state that must be
    /// cleared, so short values have room for the worst case. A long value without repetitions is
    /// not copied only to find that it did not become shorter.
    private static func room(for count: Int, most: Int) -> Int {
      count < longBytes ? Int(LZ4_compressBound(Int32(count))) : most
    }
  }
#endif
