#if LIBLZ4 && !PortableLZ4
  /// The LZ4 compressor of this build: `liblz4`.
  package typealias Compressor = SystemCompressor
  /// The LZ4 decompressor of this build: `liblz4`.
  package typealias Decompressor = SystemDecompressor
  /// The LZ4 compressor with a dictionary of this build: `liblz4`.
  package typealias DictionaryCompressor = SystemDictionaryCompressor
  /// The LZ4 decompressor with a dictionary of this build: `liblz4`.
  package typealias DictionaryDecompressor = SystemDictionaryDecompressor
#else
  /// The LZ4 compressor of this build: Swift.
  package typealias Compressor = PortableCompressor
  /// The LZ4 decompressor of this build: Swift.
  package typealias Decompressor = PortableDecompressor
  /// The LZ4 compressor with a dictionary of this build: Swift.
  package typealias DictionaryCompressor = PortableDictionaryCompressor
  /// The LZ4 decompressor with a dictionary of this build: Swift.
  package typealias DictionaryDecompressor = PortableDictionaryDecompressor
#endif

/// The rules that both implementations of LZ4 follow.
enum CompressionRules {
  /// The shortest value that is compressed. LZ4's end rules leave nothing to save in shorter ones.
  static let shortestLengthBytes = 24

  static func isCompressible(_ count: Int) -> Bool {
    count >= shortestLengthBytes && count <= StoreLimits.valueLengthBytes
  }

  /// Returns the greatest length of the compressed bytes: compression must save an eighth.
  static func most(_ count: Int) -> Int { count &- count / 8 }

  /// Returns LZ4's acceleration: 1 searches hardest. A short value seldom has other matches than
  /// plain repetition, and both settings find that. On 20,000 package records of about 220 bytes
  /// LZ4's default saves 1 %; this setting saves nothing, in less than half the instructions.
  /// Compaction finds what the values share with each other.
  static func acceleration(_ count: Int) -> Int { count < 256 ? 4 : 1 }
}
