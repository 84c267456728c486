extension JSONScanner {
  /// Skips a string.
  ///
  /// - Returns: the range of the bytes between the quotes.
  mutating func string() throws(LineProblem) -> Range<Int> {
    guard next == UInt8(ascii: "\"") else { throw problem("expected a string in quotes") }
    position += 1
    let start = position
    while !isAtEnd {
      switch next {
      case UInt8(ascii: "\""):
        position += 1
        return start..<position - 1
      case UInt8(ascii: "\\"): _ = try escape()
      case 0..<0x20: throw problem("control character without an escape")
      default: position += 1
      }
    }
    throw problem("the closing quote of a string is missing")
  }

  /// Returns the bytes of a string, with escapes decoded. The range is one that ``string()``
  /// returned.
  static func decoded(
    _ range: Range<Int>, of bytes: UnsafeBufferPointer<UInt8>
  ) throws(LineProblem) -> [UInt8] {
    let raw = bytes[range]
    guard raw.contains(UInt8(ascii: "\\")) else { return Array(raw) }
    let text = UnsafeBufferPointer(rebasing: bytes[..<range.upperBound])
    var scanner = JSONScanner(text, from: range.lowerBound)
    var decoded: [UInt8] = []
    while !scanner.isAtEnd {
      if scanner.next == UInt8(ascii: "\\") {
        decoded.append(contentsOf: UTF8.encode(try scanner.escape())!)
      } else {
        decoded.append(scanner.next)
        scanner.position += 1
      }
    }
    return decoded
  }

  /// Decodes an escape; both escapes of a surrogate pair.
  private mutating func escape() throws(LineProblem) -> UnicodeScalar {
    position += 1
    let kind = next
    guard kind != UInt8(ascii: "u") else { return try unicodeEscape() }
    let scalar: UnicodeScalar? =
      switch kind {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): UnicodeScalar(kind)
      case UInt8(ascii: "b"): "\u{8}"
      case UInt8(ascii: "f"): "\u{C}"
      case UInt8(ascii: "n"): "\n"
      case UInt8(ascii: "r"): "\r"
      case UInt8(ascii: "t"): "\t"
      default: nil
      }
    guard let scalar else { throw problem("unknown escape") }
    position += 1
    return scalar
  }

  private mutating func unicodeEscape() throws(LineProblem) -> UnicodeScalar {
    let first = try codeUnit()
    if let scalar = UnicodeScalar(first) { return scalar }
    guard first < 0xDC00, next == UInt8(ascii: "\\") else { throw problem("half a surrogate pair") }
    position += 1
    guard next == UInt8(ascii: "u") else { throw problem("half a surrogate pair") }
    let second = try codeUnit()
    guard 0xDC00...0xDFFF ~= second,
      let scalar = UnicodeScalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
    else { throw problem("half a surrogate pair") }
    return scalar
  }

  /// Decodes `u` and its four digits.
  private mutating func codeUnit() throws(LineProblem) -> UInt32 {
    position += 1
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let digit = Character(UnicodeScalar(next)).hexDigitValue, next < 0x80 else {
        throw problem("expected four hexadecimal digits")
      }
      unit = unit << 4 | UInt32(digit)
      position += 1
    }
    return unit
  }
}
