import CLZ4

package enum Decompressor {
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
}
