/// A number of a JSON text. It is compared by its decimal digits: a `Double` would make different
/// integers of 64 bits equal, and has no value for `1e400`.
struct JSONNumber: Comparable, Sendable {
  /// Limit of the power of ten. No text is so long that its digits make up for such a power.
  private static let powerLimit = 1_000_000_000_000_000_000

  private let isNegative: Bool
  /// The digits without zeros at either end. Zero has none, and no sign.
  private let digits: [UInt8]
  /// The value is `0.DIGITS` times ten to the power of this.
  private let power: Int

  /// Creates a number from its text, for which ``isNumber(_:)`` holds.
  init(_ text: [UInt8]) {
    let mantissa = text.prefix { $0 | 0x20 != UInt8(ascii: "e") }
    let hasSign = mantissa.first == UInt8(ascii: "-")
    let wholeCount = mantissa.prefix { $0 != UInt8(ascii: ".") }.count - (hasSign ? 1 : 0)
    let all = mantissa.filter { 0x30...0x39 ~= $0 }
    let significant = all.drop { $0 == 0x30 }
    let end = significant.lastIndex { $0 != 0x30 }.map { $0 + 1 } ?? significant.startIndex
    digits = Array(significant[..<end])
    isNegative = hasSign && !digits.isEmpty
    let shift = wholeCount - (all.count - significant.count)
    power = digits.isEmpty ? 0 : shift + Self.power(text.dropFirst(mantissa.count + 1))
  }

  /// Whether a text is a number as JSON writes it. `Double` takes more, among it `nan` and `0x1F`.
  static func isNumber(_ text: String) -> Bool {
    Array(text.utf8).withUnsafeBufferPointer { bytes in
      var scanner = JSONScanner(bytes)
      do throws(LineProblem) { try scanner.number() } catch { return false }
      return scanner.isAtEnd
    }
  }

  /// Returns the power that stands after the `e`; zero without one.
  private static func power(_ text: ArraySlice<UInt8>) -> Int {
    if text.isEmpty { return 0 }
    let largest = text.first == UInt8(ascii: "-") ? -powerLimit : powerLimit
    let value = Int(String(decoding: text, as: UTF8.self)) ?? largest
    return min(max(value, -powerLimit), powerLimit)
  }

  static func < (left: JSONNumber, right: JSONNumber) -> Bool {
    if left.isNegative != right.isNegative { return left.isNegative }
    return left.isNegative ? right.isSmaller(than: left) : left.isSmaller(than: right)
  }

  /// Whether the number without its sign is the smaller one.
  private func isSmaller(than other: JSONNumber) -> Bool {
    if digits.isEmpty || other.digits.isEmpty { return digits.count < other.digits.count }
    if power != other.power { return power < other.power }
    return digits.lexicographicallyPrecedes(other.digits)
  }
}
