/// An LZ4 compressor for one value at a time, in Swift. It keeps its state and scratch space
/// between calls. One thread at a time.
package struct PortableCompressor: ~Copyable {
  private var encoder = BlockEncoder()
  private var scratch = CompressionScratch()

  /// The shortest value that is compressed. LZ4's end rules leave nothing to save in shorter ones.
  package static var shortestLengthBytes: Int { CompressionRules.shortestLengthBytes }

  package init() {}

  /// Returns the compressed bytes, valid until the next call, or nil when compression does not save
  /// at least an eighth.
  ///
  /// - Complexity: O(value).
  package mutating func compress(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    guard CompressionRules.isCompressible(value.count) else { return nil }
    let most = CompressionRules.most(value.count)
    scratch.reserve(most + BlockEncoder.slackBytes)
    let count = encoder.encode(
      value.bytes, into: scratch.bytes, most: most,
      acceleration: CompressionRules.acceleration(value.count))
    return count.map { UnsafeRawBufferPointer(rebasing: scratch.bytes[..<$0]) }
  }

  /// Releases the space that a very large value needed.
  package mutating func trim() { scratch.trim() }
}

/// An LZ4 compressor with a dictionary, in Swift. It compresses every value as if the dictionary
/// stood before it, and no value refers to another.
///
/// The dictionary has a table of its own, which is made once. One thread at a time.
package struct PortableDictionaryCompressor: ~Copyable {
  private let dictionary: BlockDictionary
  private var encoder = BlockEncoder()
  private var scratch = CompressionScratch()

  /// - Parameter dictionary: LZ4 reaches no further back than its last 65,535 bytes.
  package init(dictionary bytes: [UInt8]) {
    precondition(bytes.count <= SegmentHeader.dictionaryLimit, "the dictionary exceeds 64 KiB")
    dictionary = BlockDictionary(bytes)
  }

  /// Returns the compressed bytes, valid until the next call, or nil when compression does not save
  /// at least an eighth.
  ///
  /// - Complexity: O(value).
  package mutating func compress(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    guard CompressionRules.isCompressible(value.count) else { return nil }
    let most = CompressionRules.most(value.count)
    scratch.reserve(most + BlockEncoder.slackBytes)
    let count = encoder.encode(
      value.bytes, into: scratch.bytes, most: most, dictionary: dictionary)
    return count.map { UnsafeRawBufferPointer(rebasing: scratch.bytes[..<$0]) }
  }

  /// Releases the space that a very large value needed.
  package mutating func trim() { scratch.trim() }
}
