/// Numbers in names: a fixed number of decimal digits, so that names are in the order of numbers.
enum FixedDecimal {
  /// Returns a number in decimal, with zeros before it.
  static func text(_ number: UInt64, digits: Int) -> String {
    let text = String(number)
    precondition(text.utf8.count <= digits, "a number has more digits than its name")
    return String(repeating: "0", count: digits - text.utf8.count) + text
  }

  /// Returns the number that a text of exactly `digits` decimal digits shows; nil for any other
  /// text, and for a number that is 0 or above the limit.
  static func number(_ text: some StringProtocol, digits: Int, limit: UInt64) -> UInt64? {
    guard text.utf8.count == digits,
      text.utf8.allSatisfy({ UInt8(ascii: "0") <= $0 && $0 <= UInt8(ascii: "9") }),
      let value = UInt64(text), value > 0, value <= limit
    else { return nil }
    return value
  }
}
