/// A decompressor of LZ4 blocks, in Swift. It refuses each block that `liblz4` refuses. It also
/// refuses each block with an offset of zero, which the format calls invalid, and each block that
/// breaks the rules for the end: `liblz4` accepts some of these. No compressor writes such blocks.
package enum PortableDecompressor {
  /// Decompresses one LZ4 block into exactly `target`. Returns false when `stored` is not such a
  /// block, or has another length.
  ///
  /// - Complexity: O(target).
  package static func decompress(
    _ stored: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
  ) -> Bool {
    BlockDecoder.decode(stored.bytes, into: target, from: 0, dictionary: RawSpan())
  }

  /// Decompresses one LZ4 block that was compressed against `dictionary` into exactly `target`.
  /// Returns false when `stored` is not such a block, or has another length. With a wrong
  /// dictionary the result is other bytes, or false.
  ///
  /// - Complexity: O(target).
  package static func decompress(
    _ stored: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer,
    dictionary: UnsafeRawBufferPointer
  ) -> Bool {
    // As with `liblz4`, what is too long is no dictionary.
    let isDictionary = dictionary.count <= SegmentHeader.dictionaryLimit
    return BlockDecoder.decode(
      stored.bytes, into: target, from: 0,
      dictionary: isDictionary ? dictionary.bytes : RawSpan())
  }
}

/// A decompressor for many values of one dictionary, in Swift. It keeps the dictionary directly
/// before its output, which makes copies from it as fast as others. One thread at a time.
package struct PortableDictionaryDecompressor: ~Copyable {
  private var memory: DictionaryMemory

  /// - Parameter dictionary: copied; at most 65,536 bytes.
  package init(dictionary: [UInt8]) { memory = DictionaryMemory(dictionary) }

  /// Returns the value, valid until the next call; nil where ``PortableDecompressor`` returns false
  /// or `rawLength` is impossible.
  ///
  /// - Parameter rawLength: checked against ``StoreLimits/rawLengthBound(stored:)``, because that
  ///   much memory is allocated.
  /// - Complexity: O(rawLength).
  package mutating func decompress(
    _ stored: UnsafeRawBufferPointer, rawLength: Int
  ) -> UnsafeRawBufferPointer? {
    guard let room = memory.room(rawLength: rawLength, stored: stored.count) else { return nil }
    let length = memory.dictionaryLength
    guard BlockDecoder.decode(stored.bytes, into: room, from: length, dictionary: RawSpan()) else {
      return nil
    }
    return UnsafeRawBufferPointer(rebasing: room[length...])
  }

  /// Releases the space that a very large value needed.
  package mutating func trim() { memory.trim() }
}
