public import Foundation
import MoraineEngine

/// A value that an index can hold, with an order.
///
/// A type of your own conforms by encoding other values: first the one that decides the order.
///
/// ```swift
/// struct Version: IndexValue {
///   var major, minor: Int
///   func encode(into encoder: inout IndexEncoder) {
///     encoder.append(major)
///     encoder.append(minor)
///   }
/// }
/// ```
///
/// A type with a raw value, such as an enum, only needs to state its conformance.
///
/// A value with a part that is nil is exempt from a unique index, as nil itself is.
///
/// The encoded bytes are stored. So the encoding of a type must not change; if it must, change the
/// name of each index of that type.
///
/// An index has a value as it was given where the models' format stores each standard type exactly,
/// as ``ModelFormat`` says. So the type's own `Codable` implementation must decode what it encodes.
public protocol IndexValue: Sendable {
  /// Encodes the value. Two values that are equal have equal bytes, and the lesser of two values
  /// has the lesser bytes.
  func encode(into encoder: inout IndexEncoder)
}

/// Encodes the values of an index as bytes whose order is the order of the values.
///
/// Each value begins with a byte for its type, and its end is recognizable, so bytes of several
/// values after one another have the order of the first value, then of the second, and so on. The
/// rules for text are those of FoundationDB's tuple layer (its "Tuple encoding" document).
public struct IndexEncoder: Sendable {
  private enum Mark {
    /// The end of a property. It is below all others, so a property comes before those that begin
    /// with the same values.
    static let end: UInt8 = 0x01
    static let absent: UInt8 = 0x02
    static let no: UInt8 = 0x10
    static let yes: UInt8 = 0x11
    static let integer: UInt8 = 0x20
    static let largeInteger: UInt8 = 0x21
    static let number: UInt8 = 0x30
    static let identifier: UInt8 = 0x40
    static let text: UInt8 = 0x50
    static let data: UInt8 = 0x51
  }

  /// Follows the bytes of a text or data.
  private static let endOfText: [UInt8] = [0, 0]

  private(set) var bytes: [UInt8] = []
  /// Whether a text or data was longer than the index holds.
  private(set) var isCut = false
  /// The number of bytes up to the first cut of the last property; nil when it was not cut. What
  /// follows decides no order: the rest of the text or data comes before it.
  private(set) var cutEnd: Int?
  /// Whether an optional value was nil.
  private(set) var hasAbsent = false
  /// Length to which a text or data is cut, in bytes.
  private let limit: Int

  /// - Parameter count: the number of values that are encoded together.
  init(count: Int) { limit = Self.cutLength(of: count) }

  /// Returns the length to which a text or data is cut, in bytes.
  ///
  /// - Parameter count: the number of values that are encoded together.
  static func cutLength(of count: Int) -> Int { IndexLayout.valueLengthBytes / count - 5 }

  /// Creates an encoder that cuts nothing.
  init() { limit = .max / 2 }

  /// Appends a value.
  public mutating func append(_ value: some IndexValue) { value.encode(into: &self) }

  /// Appends a property, and its end unless the property was cut: the bytes of one property never
  /// begin with those of another one.
  mutating func appendProperty(_ encode: (inout IndexEncoder) -> Void) {
    let wasCut = isCut
    (isCut, cutEnd) = (false, nil)
    encode(&self)
    if !isCut { bytes.append(Mark.end) }
    isCut = isCut || wasCut
  }

  mutating func appendProperty(_ value: some IndexValue) {
    appendProperty { encoder in encoder.append(value) }
  }

  mutating func appendAbsent() {
    bytes.append(Mark.absent)
    hasAbsent = true
  }

  mutating func append(_ value: Bool) { bytes.append(value ? Mark.yes : Mark.no) }

  mutating func append(signed value: Int64) {
    bytes.append(Mark.integer)
    append(bits: UInt64(bitPattern: value) ^ 1 << 63)
  }

  mutating func append(unsigned value: UInt64) {
    if let value = Int64(exactly: value) { return append(signed: value) }
    bytes.append(Mark.largeInteger)
    append(bits: value)
  }

  /// Minus zero is zero, and a value that is not a number comes last.
  mutating func append(number value: Double) {
    bytes.append(Mark.number)
    if value.isNaN { return append(bits: .max) }
    let bits = (value == 0 ? 0 : value).bitPattern
    append(bits: bits >> 63 == 0 ? bits | 1 << 63 : ~bits)
  }

  mutating func append(identifier: UUID) {
    bytes.append(Mark.identifier)
    withUnsafeBytes(of: identifier.uuid) { bytes.append(contentsOf: $0) }
  }

  /// The order of the text is that of Swift's `String`: of its characters in Unicode's form NFC.
  mutating func append(text: String) {
    append(Self.normalized(text).utf8, after: Mark.text)
  }

  /// Appends what the bytes of all texts begin with that begin with a text.
  mutating func append(beginningOf text: String) {
    let wasCut = isCut
    isCut = false
    append(text: text)
    if !isCut { bytes.removeLast(Self.endOfText.count) }
    isCut = isCut || wasCut
  }

  private static func normalized(_ text: String) -> String {
    text.utf8.allSatisfy { $0 < 0x80 } ? text : text.precomposedStringWithCanonicalMapping
  }

  mutating func append(data: some Sequence<UInt8>) { append(data, after: Mark.data) }

  private mutating func append(_ content: some Sequence<UInt8>, after mark: UInt8) {
    bytes.append(mark)
    let end = bytes.count + limit
    for byte in content {
      bytes.append(byte)
      // A zero has to differ from the end.
      if byte == 0 { bytes.append(0xFF) }
      if bytes.count >= end {
        isCut = true
        cutEnd = cutEnd ?? bytes.count
        return
      }
    }
    bytes += Self.endOfText
  }

  private mutating func append(bits: UInt64) {
    for shift in stride(from: 56, through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift)))
    }
  }
}

extension Bool: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(self) }
}

extension IndexValue where Self: SignedInteger & FixedWidthInteger {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(signed: Int64(self)) }
}

extension IndexValue where Self: UnsignedInteger & FixedWidthInteger {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(unsigned: UInt64(self)) }
}

extension Int: IndexValue {}
extension Int8: IndexValue {}
extension Int16: IndexValue {}
extension Int32: IndexValue {}
extension Int64: IndexValue {}
extension UInt: IndexValue {}
extension UInt8: IndexValue {}
extension UInt16: IndexValue {}
extension UInt32: IndexValue {}
extension UInt64: IndexValue {}

extension Double: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(number: self) }
}

extension Float: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(number: Double(self)) }
}

extension String: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(text: self) }
}

extension Date: IndexValue {
  public func encode(into encoder: inout IndexEncoder) {
    encoder.append(number: timeIntervalSinceReferenceDate)
  }
}

extension UUID: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(identifier: self) }
}

extension Data: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(data: self) }
}

extension URL: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { encoder.append(text: absoluteString) }
}

/// Nil comes before all other values.
extension Optional: IndexValue where Wrapped: IndexValue {
  public func encode(into encoder: inout IndexEncoder) {
    switch self {
    case nil: encoder.appendAbsent()
    case let value?: value.encode(into: &encoder)
    }
  }
}

extension IndexValue where Self: RawRepresentable, RawValue: IndexValue {
  public func encode(into encoder: inout IndexEncoder) { rawValue.encode(into: &encoder) }
}
