public import MoraineEngine

/// Keys of sixteen bytes and values of a hundred, the same in each run.
public struct Material: Sendable {
  @usableFromInline static let valueCount = 256

  /// The keys, in an order that is not the order of their digits.
  public let keys: [Key]
  @usableFromInline let values: [[UInt8]]

  /// - Parameter keyCount: number of keys.
  public init(keyCount: Int) {
    keys = Self.keys(0..<keyCount)
    var state: UInt64 = 1
    values = (0..<Self.valueCount).map { _ in
      let half = (0..<50).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(truncatingIfNeeded: state >> 56)
      }
      return half + half
    }
  }

  /// Returns a hundred bytes. The second half repeats the first.
  @inlinable @inline(__always)
  public func value(_ number: Int) -> [UInt8] { values[number & (Self.valueCount - 1)] }

  public static func keys(_ numbers: Range<Int>) -> [Key] {
    let digits = Array("0123456789abcdef".utf8)
    return numbers.map { number in
      // An odd factor maps different numbers to different results.
      let mixed = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
      return Key(
        stride(from: UInt64(60), through: 0, by: -4).map { digits[Int(mixed >> $0 & 15)] })
    }
  }
}
