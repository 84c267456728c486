import CLZ4

public enum Decompressor {
  /// Decompresses one LZ4 block into exactly `target`; false when it is not one, or of another
  /// length.
  public static func decompress(
    _ stored: UnsafeRawBufferPointer, into target: UnsafeMutableRawBufferPointer
  ) -> Bool {
    guard let source = stored.baseAddress else { return false }
    var none: CChar = 0
    return withUnsafeMutablePointer(to: &none) { placeholder in
      let output = target.baseAddress?.assumingMemoryBound(to: CChar.self) ?? placeholder
      let count = LZ4_decompress_safe(
        source.assumingMemoryBound(to: CChar.self), output,
        Int32(stored.count), Int32(target.count))
      return count >= 0 && Int(count) == target.count
    }
  }
}
