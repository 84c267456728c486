/// A dictionary with room for one decompressed value directly after it: a match may begin in the
/// dictionary, and is then copied within one piece of memory.
struct DictionaryMemory: ~Copyable {
  private var memory: UnsafeMutableRawBufferPointer
  let dictionaryLength: Int

  /// ``trim`` releases more room for a value than this.
  private static let keptBytes = 1 << 20
  private static let firstBytes = 4096

  /// - Parameter dictionary: copied; at most 65,536 bytes.
  init(_ dictionary: [UInt8]) {
    precondition(dictionary.count <= SegmentHeader.dictionaryLimit, "the dictionary exceeds 64 KiB")
    dictionaryLength = dictionary.count
    memory = .allocate(byteCount: dictionary.count + Self.firstBytes, alignment: 16)
    dictionary.withUnsafeBytes { memory.copyMemory(from: $0) }
  }

  deinit { memory.deallocate() }

  /// Returns the dictionary and room for a value after it, valid until the next call. Returns nil
  /// when no block of `stored` bytes has `rawLength` bytes of contents: that much memory is
  /// allocated.
  mutating func room(rawLength: Int, stored: Int) -> UnsafeMutableRawBufferPointer? {
    guard rawLength >= 0, rawLength <= StoreLimits.valueLengthBytes,
      rawLength <= StoreLimits.rawLengthBound(stored: stored)
    else { return nil }
    if memory.count - dictionaryLength < rawLength { resize(rawLength) }
    return UnsafeMutableRawBufferPointer(rebasing: memory[..<(dictionaryLength + rawLength)])
  }

  /// Releases the space that a very large value needed.
  mutating func trim() {
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
