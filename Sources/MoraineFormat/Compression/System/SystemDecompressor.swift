#if LIBLZ4 && !PortableLZ4
  import CLZ4

  /// A decompressor of LZ4 blocks, of `liblz4`.
  package enum SystemDecompressor {
    /// Decompresses one LZ4 block into exactly `target`. Returns false when `stored` is not such a
    /// block, or has another length.
    package static func decompress(
      _ stored: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
    ) -> Bool {
      // The library takes lengths as signed 32-bit integers.
      guard let source = stored.baseAddress, let storedCount = Int32(exactly: stored.count),
        let targetCount = Int32(exactly: target.count)
      else { return false }
      var none: CChar = 0
      return withUnsafeMutablePointer(to: &none) { placeholder in
        let output = target.baseAddress?.assumingMemoryBound(to: CChar.self) ?? placeholder
        let count = LZ4_decompress_safe(
          source.assumingMemoryBound(to: CChar.self), output, storedCount, targetCount)
        return count >= 0 && Int(count) == target.count
      }
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
      guard let source = stored.baseAddress, dictionary.count <= SegmentHeader.dictionaryLimit,
        let dictionaryStart = dictionary.baseAddress
      else { return decompress(stored, into: target) }
      guard let storedCount = Int32(exactly: stored.count),
        let targetCount = Int32(exactly: target.count)
      else { return false }
      var none: CChar = 0
      return withUnsafeMutablePointer(to: &none) { placeholder in
        let output = target.baseAddress?.assumingMemoryBound(to: CChar.self) ?? placeholder
        let count = LZ4_decompress_safe_usingDict(
          source.assumingMemoryBound(to: CChar.self), output, storedCount, targetCount,
          dictionaryStart.assumingMemoryBound(to: CChar.self), Int32(dictionary.count))
        return count >= 0 && Int(count) == target.count
      }
    }
  }
#endif
