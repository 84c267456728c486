import Moraine

/// The field of a model that holds its key.
struct KeyField {
  let name: String

  private var quoted: String { Text.quoted(name) }

  /// Checks that a line is exactly one JSON object, and returns its key: the characters of a
  /// string, or the digits of a number exactly as written. A number converted to a `Double` and
  /// back could become another model's key.
  func key(of line: [UInt8]) throws(LineProblem) -> Key {
    try line.withBuffer { (bytes) throws(LineProblem) in
      guard Text.isUTF8(bytes) else { throw LineProblem(message: "not UTF-8") }
      return try key(of: bytes)
    }
  }

  private func key(of line: UnsafeBufferPointer<UInt8>) throws(LineProblem) -> Key {
    let name = Array(name.utf8)
    var field: Range<Int>?
    var scanner = JSONScanner(line)
    scanner.skipSpace()
    guard scanner.next == UInt8(ascii: "{") else {
      // For a line that is no JSON, this throws a more exact message.
      try scanner.skipValue()
      try expectEnd(&scanner)
      throw LineProblem(message: "not a JSON object")
    }
    try scanner.object { (scanner, nameRange) throws(LineProblem) in
      let isKey = try matches(nameRange, of: line, name)
      let start = scanner.position
      try scanner.skipValue()
      guard isKey else { return }
      guard field == nil else {
        throw LineProblem(message: "there are two fields \(quoted); the key must be unique")
      }
      field = start..<scanner.position
    }
    try expectEnd(&scanner)
    guard let field else { throw LineProblem(message: "there is no field \(quoted)") }
    return try key(line, field)
  }

  private func expectEnd(_ scanner: inout JSONScanner) throws(LineProblem) {
    scanner.skipSpace()
    guard scanner.isAtEnd else { throw scanner.problem("more text after the value") }
  }

  /// Compares the bytes of a name. For `String`, precomposed and decomposed letters are equal.
  private func matches(
    _ range: Range<Int>, of line: UnsafeBufferPointer<UInt8>, _ name: [UInt8]
  ) throws(LineProblem) -> Bool {
    let raw = line[range]
    if raw.elementsEqual(name) { return true }
    guard raw.contains(UInt8(ascii: "\\")) else { return false }
    return try JSONScanner.decoded(range, of: line) == name
  }

  private func key(
    _ line: UnsafeBufferPointer<UInt8>, _ field: Range<Int>
  ) throws(LineProblem) -> Key {
    let bytes: [UInt8]
    switch line[field.lowerBound] {
    case UInt8(ascii: "\""):
      let text = field.lowerBound + 1..<field.upperBound - 1
      bytes = try JSONScanner.decoded(text, of: line)
      guard !bytes.isEmpty else { throw LineProblem(message: "\(quoted) is an empty string") }
    case UInt8(ascii: "n"): throw unfit("null")
    case UInt8(ascii: "t"), UInt8(ascii: "f"): throw unfit("a boolean")
    case UInt8(ascii: "["): throw unfit("an array")
    case UInt8(ascii: "{"): throw unfit("an object")
    default: bytes = Array(line[field])
    }
    guard bytes.count <= StoreLimits.keyLengthBytes else {
      throw LineProblem(
        message: "\(quoted) has \(bytes.count) bytes; a key can have \(StoreLimits.keyLengthBytes)")
    }
    return Key(bytes)
  }

  private func unfit(_ kind: String) -> LineProblem {
    LineProblem(message: "\(quoted) is \(kind); a key must be a string or a number")
  }
}

extension Array {
  /// Calls `withUnsafeBufferPointer` with a typed error.
  func withBuffer<Result, Problem: Error>(
    _ body: (UnsafeBufferPointer<Element>) throws(Problem) -> Result
  ) throws(Problem) -> Result {
    try withUnsafeBufferPointer(body)
  }
}
