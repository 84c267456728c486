/// The place of one operation in the order in which a store applied them.
///
/// The first operation of a store has sequence number 1; 0 means "none". Numbers rise and do not
/// come from a clock. Gaps are allowed. When a crash has lost operations, the store may assign
/// their numbers again.
public struct SequenceNumber: RawRepresentable, Hashable, Comparable, Sendable, Codable {
  /// The number, counted from 1; 0 is ``none``.
  public let rawValue: UInt64

  @inlinable
  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// The number before that of every operation.
  @inlinable
  public static var none: SequenceNumber { SequenceNumber(rawValue: 0) }

  /// The largest number the format can hold, 2^56 - 1.
  public static let max = SequenceNumber(rawValue: (1 << 56) - 1)

  /// Returns whether the left operation came before the right one.
  @inlinable
  public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

extension SequenceNumber: CustomStringConvertible {
  /// The number in decimal.
  public var description: String { String(rawValue) }
}
