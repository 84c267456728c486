import Moraine
import MoraineTesting

/// Keys, values and an order, the same on every run.
struct BenchData: Sendable {
  let count: Int
  let valueLengthBytes: Int
  /// The numbers of all keys, mixed.
  let order: [Int]
  private let noise: [UInt8]

  init(count: Int, valueLengthBytes: Int) {
    self.count = count
    self.valueLengthBytes = valueLengthBytes
    var generator = SeededGenerator(seed: 1)
    order = (0..<count).shuffled(using: &generator)
    noise = (0..<(64 << 10)).map { _ in UInt8(truncatingIfNeeded: generator.next() >> 32) }
  }

  /// Sixteen digits.
  func key(_ number: Int) -> Key {
    var digits = [UInt8](repeating: UInt8(ascii: "0"), count: 16)
    var (rest, place) = (number, 15)
    while rest > 0 {
      digits[place] = UInt8(ascii: "0") + UInt8(rest % 10)
      rest /= 10
      place -= 1
    }
    return Key(digits)
  }

  /// One that is never stored.
  func missingKey(_ number: Int) -> Key { Key([UInt8(ascii: "x")] + key(number).bytes.dropFirst()) }

  /// Half noise, half the same byte.
  func value(_ number: Int, generation: Int = 0) -> [UInt8] {
    let half = valueLengthBytes / 2
    let start = (number &* 7919 &+ generation &* 104_729) % (noise.count / 2)
    var value: [UInt8] = []
    value.reserveCapacity(valueLengthBytes)
    while value.count < half {
      value.append(contentsOf: noise[start..<(start + min(half - value.count, noise.count / 2))])
    }
    value.append(
      contentsOf: repeatElement(UInt8(ascii: "m"), count: valueLengthBytes - value.count))
    return value
  }
}
