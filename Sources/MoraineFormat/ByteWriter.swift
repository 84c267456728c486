/// A growing buffer of bytes and little-endian integers.
package struct ByteWriter {
  package private(set) var bytes: [UInt8] = []

  package init() {}

  /// Makes room for a number of bytes.
  package mutating func reserve(_ byteCount: Int) { bytes.reserveCapacity(byteCount) }

  // Swift specializes no generic function of another module that is `package`, so each width has
  // a function of its own.

  package mutating func append(_ integer: UInt8) { bytes.append(integer) }
  package mutating func append(_ integer: UInt16) { appendInteger(integer) }
  package mutating func append(_ integer: UInt32) { appendInteger(integer) }
  package mutating func append(_ integer: UInt64) { appendInteger(integer) }

  private mutating func appendInteger(_ integer: some FixedWidthInteger) {
    withUnsafeBytes(of: integer.littleEndian) { bytes.append(contentsOf: $0) }
  }

  package mutating func append(_ identifier: StoreIdentifier) {
    append(identifier.low)
    append(identifier.high)
  }

  package mutating func append(_ digest: StateDigest) {
    append(digest.low)
    append(digest.high)
  }

  package mutating func append(contentsOf more: some Sequence<UInt8>) {
    bytes.append(contentsOf: more)
  }

  package mutating func append(contentsOf more: [UInt8]) { bytes.append(contentsOf: more) }

  package mutating func append(contentsOf more: UnsafeRawBufferPointer) {
    bytes.append(contentsOf: more)
  }

  package mutating func appendZeros(_ count: Int) {
    bytes.append(contentsOf: repeatElement(0, count: count))
  }

  package mutating func replace(at offset: Int, with integer: some FixedWidthInteger) {
    withUnsafeBytes(of: integer.littleEndian) { raw in
      for (index, byte) in raw.enumerated() { bytes[offset + index] = byte }
    }
  }

  package mutating func replace(at offset: Int, with more: [UInt8]) {
    bytes.replaceSubrange(offset..<offset + more.count, with: more)
  }
}
