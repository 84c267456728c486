#if LIBLZ4 && !PortableLZ4
  /// A decompressor for many values of one dictionary, of `liblz4`. It keeps the dictionary
  /// directly before its output: `LZ4_decompress_safe_usingDict` then copies within one piece of
  /// memory, and takes about half as long. One thread at a time.
  package struct SystemDictionaryDecompressor: ~Copyable {
    private var memory: DictionaryMemory

    /// - Parameter dictionary: copied; at most 65,536 bytes.
    package init(dictionary: [UInt8]) { memory = DictionaryMemory(dictionary) }

    /// Returns the value, valid until the next call; nil where ``SystemDecompressor`` returns false
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
      let target = UnsafeMutableRawBufferPointer(rebasing: room[length...])
      let dictionary = UnsafeRawBufferPointer(rebasing: room[..<length])
      guard SystemDecompressor.decompress(stored, into: target, dictionary: dictionary) else {
        return nil
      }
      return UnsafeRawBufferPointer(target)
    }

    /// Releases the space that a very large value needed.
    package mutating func trim() { memory.trim() }
  }
#endif
