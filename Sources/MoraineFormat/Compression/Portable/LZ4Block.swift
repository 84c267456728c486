/// The numbers of the LZ4 block format.
enum LZ4Block {
  static let leastMatch = 4
  /// A block ends with at least this number of literals.
  static let lastLiterals = 5
  /// The last match begins at least this number of bytes before the end.
  static let lastMatchDistance = 12

  /// Returns the number of bytes that a length needs beside its four bits in the token.
  @inline(__always)
  static func extraBytes(_ length: Int) -> Int { (length &+ 240) / 255 }

  /// Returns a hash of the five low bytes. Its high bits are the best.
  @inline(__always)
  static func hash(_ word: UInt64) -> UInt64 { (word &<< 24) &* 0x9E37_79B1_85EB_CA87 }
}
