import MoraineEngine

/// Keys and values, the same and as many whatever is counted.
struct Material: Sendable {
  static let keyCount = 40_000
  private static let valueCount = 256

  /// Sixteen bytes each, in an order that is not that of their digits.
  let keys: [Key]
  /// A hundred bytes each, the second half a repetition of the first.
  private let values: [[UInt8]]

  init() {
    // An odd factor takes each number to another one.
    keys = (0..<Self.keyCount).map { Self.key(UInt64($0) &* 0x9E37_79B9_7F4A_7C15) }
    var state: UInt64 = 1
    values = (0..<Self.valueCount).map { _ in
      let half = (0..<50).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return UInt8(truncatingIfNeeded: state >> 56)
      }
      return half + half
    }
  }

  @inline(__always)
  func value(_ number: Int) -> [UInt8] { values[number & (Self.valueCount - 1)] }

  private static func key(_ number: UInt64) -> Key {
    let digits = Array("0123456789abcdef".utf8)
    return Key(
      stride(from: UInt64(60), through: 0, by: -4).map { digits[Int(number >> $0 & 15)] })
  }
}
