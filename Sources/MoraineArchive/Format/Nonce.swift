import MoraineFormat

/// A random 128-bit number that names one commit, one term or one data object.
package struct Nonce: Hashable, Sendable {
  /// The first eight bytes, as a little-endian number.
  package let low: UInt64
  /// The last eight bytes, as a little-endian number.
  package let high: UInt64

  package init(low: UInt64, high: UInt64) {
    (self.low, self.high) = (low, high)
  }

  /// The number that names nothing.
  package static let zero = Nonce(low: 0, high: 0)
}

extension Nonce: CustomStringConvertible {
  /// The sixteen bytes in hexadecimal, in lower case.
  package var description: String {
    StoreIdentifier(low: low, high: high).description
  }
}

extension Nonce {
  /// Creates a nonce from 32 hexadecimal digits in lower case, such as ``description``; nil for any
  /// other text.
  package init?(hexadecimal text: some StringProtocol) {
    guard let value = StoreIdentifier(hexadecimal: String(text)) else { return nil }
    self.init(low: value.low, high: value.high)
    guard description == text else { return nil }
  }
}
