/// The number of a segment of the log. Numbers rise, and a store never assigns one twice.
public struct SegmentNumber: RawRepresentable, Hashable, Comparable, Sendable, Codable {
  /// The number, counted from 1.
  public let rawValue: UInt64

  /// Creates a segment number. The segment need not exist.
  @inlinable
  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  /// Returns whether the left segment was created before the right one.
  @inlinable
  public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }

  static let fileExtension = ".segment"

  /// The name of the segment's file, such as `0000000001.segment`.
  public var fileName: String {
    let digits = String(rawValue)
    let padding = String(repeating: "0", count: Swift.max(0, 10 - digits.utf8.count))
    return padding + digits + Self.fileExtension
  }

  /// Creates the number from a file name; nil unless the name is exactly one that ``fileName``
  /// makes.
  public init?(fileName: String) {
    guard fileName.hasSuffix(Self.fileExtension) else { return nil }
    let digits = fileName.dropLast(Self.fileExtension.utf8.count)
    guard let value = UInt64(digits), value > 0 else { return nil }
    self.init(rawValue: value)
    guard self.fileName == fileName else { return nil }
  }
}

extension SegmentNumber: CustomStringConvertible {
  /// The number in decimal.
  public var description: String { String(rawValue) }
}
