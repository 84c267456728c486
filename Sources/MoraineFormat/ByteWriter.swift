/// A growing buffer of bytes and little-endian integers.
public struct ByteWriter {
  public private(set) var bytes: [UInt8] = []

  public init() {}

  public mutating func append(_ integer: some FixedWidthInteger) {
    withUnsafeBytes(of: integer.littleEndian) { bytes.append(contentsOf: $0) }
  }

  public mutating func append(_ identifier: Identifier) {
    append(identifier.low)
    append(identifier.high)
  }

  public mutating func append(_ digest: StateDigest) {
    append(digest.low)
    append(digest.high)
  }

  public mutating func append(contentsOf more: some Sequence<UInt8>) {
    bytes.append(contentsOf: more)
  }

  public mutating func appendZeros(_ count: Int) {
    bytes.append(contentsOf: repeatElement(0, count: count))
  }

  public mutating func replace(at offset: Int, with integer: some FixedWidthInteger) {
    withUnsafeBytes(of: integer.littleEndian) { raw in
      for (index, byte) in raw.enumerated() { bytes[offset + index] = byte }
    }
  }
}
