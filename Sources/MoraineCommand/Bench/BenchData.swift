import Moraine
import MoraineTesting

/// Keys, values and an order of keys, the same in every run.
struct BenchData: Sendable {
  let count: Int
  let valueLengthBytes: Int
  /// Numbers of all keys, in random order.
  let order: [Int]
  private let noise: [UInt8]

  init(count: Int, valueLengthBytes: Int) {
    self.count = count
    self.valueLengthBytes = valueLengthBytes
    var generator = SeededGenerator(seed: 1)
    order = (0..<count).shuffled(using: &generator)
    noise = (0..<(64 << 10)).map { _ in UInt8(truncatingIfNeeded: generator.next() >> 32) }
  }

  /// Returns a key of sixteen digits.
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

  /// Returns a key that is never stored.
  func missingKey(_ number: Int) -> Key { Key([UInt8(ascii: "x")] + key(number).bytes.dropFirst()) }

  /// Returns a value of which half is random bytes and half one repeated byte.
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
