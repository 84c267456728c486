import CLZ4

extension Decompressor {
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

/// A decompressor for many values of one dictionary. It keeps the dictionary directly before its
/// output: `LZ4_decompress_safe_usingDict` then copies within one piece of memory, and takes about
/// half as long. One thread at a time.
package struct DictionaryDecompressor: ~Copyable {
  private var memory: UnsafeMutableRawBufferPointer
  private let dictionaryLength: Int

  /// ``trim`` releases more room for a value than this.
  private static let keptBytes = 1 << 20
  private static let firstBytes = 4096

  /// - Parameter dictionary: copied; at most 65,536 bytes.
  package init(dictionary: [UInt8]) {
    precondition(dictionary.count <= SegmentHeader.dictionaryLimit, "the dictionary exceeds 64 KiB")
    dictionaryLength = dictionary.count
    memory = .allocate(byteCount: dictionary.count + Self.firstBytes, alignment: 16)
    dictionary.withUnsafeBytes { memory.copyMemory(from: $0) }
  }

  deinit { memory.deallocate() }

  /// Returns the value, valid until the next call; nil where ``Decompressor`` returns false or
  /// `rawLength` is impossible.
  ///
  /// - Parameter rawLength: checked against ``StoreLimits/rawLengthBound(stored:)``, because that
  ///   much memory is allocated.
  /// - Complexity: O(rawLength).
  package mutating func decompress(
    _ stored: UnsafeRawBufferPointer, rawLength: Int
  ) -> UnsafeRawBufferPointer? {
    guard rawLength >= 0, rawLength <= StoreLimits.valueLengthBytes,
      rawLength <= StoreLimits.rawLengthBound(stored: stored.count)
    else { return nil }
    if memory.count - dictionaryLength < rawLength { resize(rawLength) }
    let target = UnsafeMutableRawBufferPointer(
      rebasing: memory[dictionaryLength...].prefix(rawLength))
    let dictionary = UnsafeRawBufferPointer(rebasing: memory[..<dictionaryLength])
    guard Decompressor.decompress(stored, into: target, dictionary: dictionary) else { return nil }
    return UnsafeRawBufferPointer(target)
  }

  /// Releases the space that a very large value needed.
  package mutating func trim() {
    if memory.count - dictionaryLength > Self.keptBytes { resize(Self.firstBytes) }
  }

  private mutating func resize(_ room: Int) {
    let other = UnsafeMutableRawBufferPointer.allocate(
      byteCount: dictionaryLength + room, alignment: 16)
    other.copyMemory(from: UnsafeRawBufferPointer(rebasing: memory[..<dictionaryLength]))
    memory.deallocate()
    memory = other
  }
}
