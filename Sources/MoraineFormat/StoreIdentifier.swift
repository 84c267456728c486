/// A random 128-bit name of a store, or of one copy of a store.
public struct StoreIdentifier: Hashable, Sendable {
  /// The first eight bytes, as a little-endian number.
  public let low: UInt64
  /// The last eight bytes, as a little-endian number.
  public let high: UInt64

  /// Creates an identifier from its two halves.
  public init(low: UInt64, high: UInt64) {
    self.low = low
    self.high = high
  }
}

extension StoreIdentifier: CustomStringConvertible {
  /// The sixteen bytes in hexadecimal.
  public var description: String {
    [low, high].map { half in
      withUnsafeBytes(of: half.littleEndian) { Hex.encode($0) }
    }.joined()
  }
}

extension StoreIdentifier {
  /// Creates an identifier from 32 hexadecimal digits, such as ``description``; nil for any other
  /// text.
  public init?(hexadecimal text: String) {
    guard let bytes = Hex.decode(text), bytes.count == 16 else { return nil }
    self = bytes.withUnsafeBytes { raw in
      StoreIdentifier(
        low: UInt64(littleEndian: raw.loadUnaligned(as: UInt64.self)),
        high: UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
    }
  }
}
