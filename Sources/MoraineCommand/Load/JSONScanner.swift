/// An error in a line of input. The message is printed after the number of the line.
struct LineProblem: Error, Equatable {
  let message: String
}

/// A scanner that checks one JSON text (RFC 8259) and builds no values. A byte after the end reads
/// as 0, which is legal nowhere, so only the loop of a string has to check for the end.
struct JSONScanner {
  /// Nesting limit of Foundation's parser, which reads the models later.
  private static let depthLimit = 512

  private let bytes: UnsafeBufferPointer<UInt8>
  var position: Int
  private var depth = 0

  /// The memory must outlive the scanner.
  init(_ bytes: UnsafeBufferPointer<UInt8>, from position: Int = 0) {
    self.bytes = bytes
    self.position = position
  }

  var next: UInt8 { position < bytes.count ? bytes[position] : 0 }
  var isAtEnd: Bool { position >= bytes.count }

  func problem(_ what: String) -> LineProblem {
    LineProblem(message: "not JSON: \(what) at column \(position + 1)")
  }

  mutating func skipSpace() {
    while next == 0x20 || next == 0x09 || next == 0x0A || next == 0x0D { position += 1 }
  }

  mutating func expect(_ byte: UInt8) throws(LineProblem) {
    guard next == byte else {
      throw problem("\"\(Character(UnicodeScalar(byte)))\" is missing")
    }
    position += 1
  }

  /// Scans an object whose `{` is next. Calls the body with the name of each member; the scanner
  /// then is before the value, and the body must skip it.
  mutating func object(
    _ member: (inout JSONScanner, Range<Int>) throws(LineProblem) -> Void
  ) throws(LineProblem) {
    try descend()
    defer { depth -= 1 }
    try expect(UInt8(ascii: "{"))
    skipSpace()
    if next == UInt8(ascii: "}") { return position += 1 }
    while true {
      skipSpace()
      let name = try string()
      skipSpace()
      try expect(UInt8(ascii: ":"))
      skipSpace()
      try member(&self, name)
      skipSpace()
      if next == UInt8(ascii: "}") { return position += 1 }
      try expect(UInt8(ascii: ","))
    }
  }

  private mutating func array() throws(LineProblem) {
    try descend()
    defer { depth -= 1 }
    try expect(UInt8(ascii: "["))
    skipSpace()
    if next == UInt8(ascii: "]") { return position += 1 }
    while true {
      skipSpace()
      try skipValue()
      skipSpace()
      if next == UInt8(ascii: "]") { return position += 1 }
      try expect(UInt8(ascii: ","))
    }
  }

  /// Counts a level, the outermost one too: whatever reads the models later counts it.
  private mutating func descend() throws(LineProblem) {
    guard depth < Self.depthLimit else {
      throw problem("nesting deeper than \(Self.depthLimit) levels")
    }
    depth += 1
  }

  mutating func skipValue() throws(LineProblem) {
    switch next {
    case UInt8(ascii: "\""): _ = try string()
    case UInt8(ascii: "["): try array()
    case UInt8(ascii: "{"):
      try object { (scanner, _) throws(LineProblem) in try scanner.skipValue() }
    case UInt8(ascii: "t"): try word("true")
    case UInt8(ascii: "f"): try word("false")
    case UInt8(ascii: "n"): try word("null")
    default: try number()
    }
  }

  private mutating func word(_ word: StaticString) throws(LineProblem) {
    for index in 0..<word.utf8CodeUnitCount {
      guard next == word.utf8Start[index] else { throw problem("a value is missing") }
      position += 1
    }
  }

  mutating func number() throws(LineProblem) {
    if next == UInt8(ascii: "-") { position += 1 }
    if next == UInt8(ascii: "0") { position += 1 } else { try digits("a value is missing") }
    if next == UInt8(ascii: ".") {
      position += 1
      try digits("a digit is missing")
    }
    if next == UInt8(ascii: "e") || next == UInt8(ascii: "E") {
      position += 1
      if next == UInt8(ascii: "+") || next == UInt8(ascii: "-") { position += 1 }
      try digits("a digit is missing")
    }
  }

  private mutating func digits(_ otherwise: String) throws(LineProblem) {
    let start = position
    while UInt8(ascii: "0")...UInt8(ascii: "9") ~= next { position += 1 }
    guard position > start else { throw problem(otherwise) }
  }
}

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
