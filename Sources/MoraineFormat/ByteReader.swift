/// A reader of the integers and bytes in a buffer, in order. It never reads past the buffer's end.
package struct ByteReader {
  private let bytes: UnsafeRawBufferPointer
  /// Offset of the buffer in its file, for error messages.
  private let fileOffset: UInt64
  package private(set) var position = 0

  package init(_ bytes: UnsafeRawBufferPointer, fileOffset: UInt64 = 0) {
    self.bytes = bytes
    self.fileOffset = fileOffset
  }

  package var remaining: Int { bytes.count - position }
  package var offset: UInt64 { fileOffset + UInt64(position) }

  // Swift specializes no generic function of another module that is `package`, so each width has
  // a function of its own.

  package mutating func read(_ type: UInt8.Type = UInt8.self) throws(FormatError) -> UInt8 {
    try readInteger()
  }

  package mutating func read(_ type: UInt16.Type = UInt16.self) throws(FormatError) -> UInt16 {
    try readInteger()
  }

  package mutating func read(_ type: UInt32.Type = UInt32.self) throws(FormatError) -> UInt32 {
    try readInteger()
  }

  package mutating func read(_ type: UInt64.Type = UInt64.self) throws(FormatError) -> UInt64 {
    try readInteger()
  }

  private mutating func readInteger<Integer: FixedWidthInteger & BitwiseCopyable>()
    throws(FormatError) -> Integer
  {
    let size = MemoryLayout<Integer>.size
    guard remaining >= size else { throw short() }
    let value = bytes.loadUnaligned(fromByteOffset: position, as: Integer.self)
    position += size
    return Integer(littleEndian: value)
  }

  package mutating func readIdentifier() throws(FormatError) -> StoreIdentifier {
    let low: UInt64 = try read()
    return StoreIdentifier(low: low, high: try read())
  }

  package mutating func readDigest() throws(FormatError) -> StateDigest {
    let low: UInt64 = try read()
    return StateDigest(low: low, high: try read())
  }

  package mutating func take(_ count: Int) throws(FormatError) -> UnsafeRawBufferPointer {
    guard count >= 0, remaining >= count else { throw short() }
    defer { position += count }
    return UnsafeRawBufferPointer(rebasing: bytes[position..<position + count])
  }

  package mutating func skipZeros(_ count: Int, _ what: String) throws(FormatError) {
    let start = offset
    guard try take(count).allSatisfy({ $0 == 0 }) else {
      throw FormatError(newer: "\(what): bytes that must be zero are not", at: start)
    }
  }

  private func short() -> FormatError {
    FormatError("the data ends inside a field", at: offset)
  }
}
