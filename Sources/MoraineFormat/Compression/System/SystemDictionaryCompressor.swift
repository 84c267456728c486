#if LIBLZ4 && !PortableLZ4
  import CLZ4

  /// An LZ4 compressor with a dictionary, of `liblz4`. It compresses every value as if the
  /// dictionary stood before it, and no value refers to another.
  ///
  /// `LZ4_loadDict` hashes the whole dictionary, which takes longer than compressing a small value.
  /// It is called once. Each value begins with a copy of the 16 KiB of state that it left: `lz4.h`
  /// names this as the way to avoid another load. One thread at a time.
  package struct SystemDictionaryCompressor: ~Copyable {
    // The loaded state points into the dictionary, so the dictionary must not move.
    private let dictionary: UnsafeMutableRawBufferPointer
    private let loaded: UnsafeMutablePointer<LZ4_stream_t>
    private let stream: UnsafeMutablePointer<LZ4_stream_t>
    private var scratch: CompressionScratch

    /// - Parameter dictionary: copied; LZ4 reaches no further back than its last 65,535 bytes.
    package init(dictionary bytes: [UInt8]) {
      precondition(bytes.count <= SegmentHeader.dictionaryLimit, "the dictionary exceeds 64 KiB")
      guard let loaded = LZ4_createStream(), let stream = LZ4_createStream() else {
        fatalError("out of memory: LZ4 state")
      }
      let dictionary = UnsafeMutableRawBufferPointer.allocate(
        byteCount: max(bytes.count, 1), alignment: 16)
      bytes.withUnsafeBytes { dictionary.copyMemory(from: $0) }
      LZ4_loadDict(
        loaded, dictionary.baseAddress!.assumingMemoryBound(to: CChar.self), Int32(bytes.count))
      self.dictionary = dictionary
      self.loaded = loaded
      self.stream = stream
      scratch = CompressionScratch()
    }

    deinit {
      LZ4_freeStream(stream)
      LZ4_freeStream(loaded)
      dictionary.deallocate()
    }

    /// Returns the compressed bytes, valid until the next call, or nil when compression does not
    /// save at least an eighth.
    ///
    /// - Complexity: O(value), and 16 KiB to copy.
    package mutating func compress(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
      guard CompressionRules.isCompressible(value.count), let source = value.baseAddress else {
        return nil
      }
      UnsafeMutableRawPointer(stream)
        .copyMemory(from: loaded, byteCount: MemoryLayout<LZ4_stream_t>.size)
      return scratch.compress(source, count: value.count, with: stream)
    }

    /// Releases the space that a very large value needed.
    package mutating func trim() { scratch.trim() }
  }
#endif
