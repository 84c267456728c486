import Moraine

/// The field of a model that is its key.
struct KeyField {
  let name: String

  private var quoted: String { Text.quoted(name) }

  /// Checks that a line is one JSON object, all of it, and finds its key: a text's own characters,
  /// or a number exactly as it is written, for a number that went through a `Double` could become
  /// another model's key.
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
      // Not JSON at all is the better message, where it is so.
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
        throw LineProblem(message: "there are two fields \(quoted); one must be the key")
      }
      field = start..<scanner.position
    }
    try expectEnd(&scanner)
    guard let field else { throw LineProblem(message: "there is no field \(quoted)") }
    return try key(line, field)
  }

  private func expectEnd(_ scanner: inout JSONScanner) throws(LineProblem) {
    scanner.skipSpace()
    guard scanner.isAtEnd else { throw scanner.problem("more behind the value") }
  }

  /// Compares bytes: to `String`, precomposed and decomposed letters are the same.
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
      guard !bytes.isEmpty else { throw LineProblem(message: "\(quoted) is an empty text") }
    case UInt8(ascii: "n"): throw unfit("null")
    case UInt8(ascii: "t"), UInt8(ascii: "f"): throw unfit("a boolean")
    case UInt8(ascii: "["): throw unfit("an array")
    case UInt8(ascii: "{"): throw unfit("an object")
    default: bytes = Array(line[field])
    }
    guard bytes.count <= Limits.keyLengthBytes else {
      throw LineProblem(
        message: "\(quoted) has \(bytes.count) bytes; a key can have \(Limits.keyLengthBytes)")
    }
    return Key(bytes)
  }

  private func unfit(_ kind: String) -> LineProblem {
    LineProblem(message: "\(quoted) is \(kind); a key is text or a number")
  }
}

extension Array {
  /// `withUnsafeBufferPointer` with the type of what is thrown.
  fileprivate func withBuffer<Result, Problem: Error>(
    _ body: (UnsafeBufferPointer<Element>) throws(Problem) -> Result
  ) throws(Problem) -> Result {
    try withUnsafeBufferPointer(body)
  }
}
