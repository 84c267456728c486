@_exported public import struct MoraineFormat.SegmentNumber
@_exported public import struct MoraineFormat.SequenceNumber
@_exported public import struct MoraineFormat.StateDigest
@_exported public import struct MoraineFormat.StoreIdentifier
@_exported public import enum MoraineFormat.StoreLimits

/// The key of a value: any bytes, up to `StoreLimits.keyLengthBytes`.
public struct Key: Hashable, Sendable {
  /// The bytes of the key. Two keys are equal when their bytes are.
  public let bytes: [UInt8]

  /// Creates a key of these bytes. The store checks the length when the key is used.
  @inlinable
  public init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// Creates a key of any sequence of bytes.
  @inlinable
  public init(_ bytes: some Sequence<UInt8>) {
    self.bytes = Array(bytes)
  }

  /// Creates a key of the UTF-8 bytes of the text.
  @inlinable
  public init(_ text: String) {
    bytes = Array(text.utf8)
  }
}

extension Key: Comparable {
  /// Compares the bytes. A key precedes the keys that begin with it.
  public static func < (left: Key, right: Key) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

extension Key: ExpressibleByStringInterpolation {
  @inlinable
  public init(stringLiteral text: String) { self.init(text) }
}

extension Key: ExpressibleByArrayLiteral {
  @inlinable
  public init(arrayLiteral bytes: UInt8...) { self.init(bytes) }
}

extension Key: CustomStringConvertible {
  /// The key as text, where it is UTF-8.
  public var description: String { String(decoding: bytes, as: UTF8.self) }
}

// Types of the format that the store's public interface uses. The rest of the format module stays
// hidden.
