import BenchmarkSupport
import Foundation
import MoraineEngine

/// Keys and values, made before any row begins.
struct TestData: Sendable {
  let count: Int
  /// Every number below `count` once, in random order.
  let order: [Int]
  private let values: [[UInt8]]

  /// - Parameters:
  ///   - seed: the same seed gives the same data.
  ///   - valueCount: number of different values, a power of two.
  init(count: Int, seed: UInt64 = 1, valueCount: Int = 1024) {
    var generator = SplitMix64(seed: seed)
    self.count = count
    order = (0..<count).shuffled(using: &generator)
    values = (0..<valueCount).map { _ in
      let half = (0..<50).map { _ in UInt8.random(in: 0...255, using: &generator) }
      return half + half
    }
  }

  /// Returns sixteen hexadecimal digits.
  @inline(__always)
  func key(_ number: Int) -> Key {
    var digits = [UInt8](repeating: 48, count: 16)
    var rest = UInt64(number)
    for place in stride(from: 15, through: 0, by: -1) where rest != 0 {
      let digit = UInt8(truncatingIfNeeded: rest & 15)
      digits[place] = digit < 10 ? 48 + digit : 87 + digit
      rest >>= 4
    }
    return Key(digits)
  }

  @inline(__always)
  func value(_ number: Int) -> [UInt8] { values[number & (values.count - 1)] }
}
