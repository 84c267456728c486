/// A random 128-bit name: of a store, or of one copy of it.
public struct Identifier: Hashable, Sendable {
  /// The first eight bytes, as a little-endian number.
  public let low: UInt64
  /// The last eight.
  public let high: UInt64

  /// The name of which these are the halves.
  public init(low: UInt64, high: UInt64) {
    self.low = low
    self.high = high
  }
}

extension Identifier: CustomStringConvertible {
  /// Its sixteen bytes in hexadecimal.
  public var description: String {
    [low, high].map { half in
      withUnsafeBytes(of: half.littleEndian) { Hex.encode($0) }
    }.joined()
  }
}

extension Identifier {
  /// From what ``description`` gives; nil for anything else.
  public init?(hexadecimal text: String) {
    guard let bytes = Hex.decode(text), bytes.count == 16 else { return nil }
    self = bytes.withUnsafeBytes { raw in
      Identifier(
        low: UInt64(littleEndian: raw.loadUnaligned(as: UInt64.self)),
        high: UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
  }
}
