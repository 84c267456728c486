/// A value in a JSON model.
enum JSONTree: Equatable, Sendable {
  case null
  case bool(Bool)
  case number(JSONNumber)
  case text(String)
  /// A list without its elements: no path leads into it, and no condition compares with it.
  case list
  case object([String: JSONTree])

  /// Reads a model.
  init(model: [UInt8]) throws(LineProblem) {
    self = try model.withBuffer { (bytes) throws(LineProblem) in
      guard Text.isUTF8(bytes) else { throw LineProblem(message: "not UTF-8") }
      var scanner = JSONScanner(bytes)
      scanner.skipSpace()
      let start = scanner.position
      // Checks the text and its depth, for which `value` has no limit.
      try scanner.skipValue()
      scanner.skipSpace()
      guard scanner.isAtEnd else { throw scanner.problem("more text after the value") }
      scanner.position = start
      return try scanner.value(of: bytes)
    }
  }

  /// Creates the value that a condition compares with.
  init(condition text: String) {
    switch text {
    case "null": self = .null
    case "true", "false": self = .bool(text == "true")
    default:
      if text.count > 1, text.hasPrefix("\""), text.hasSuffix("\"") {
        self = .text(String(text.dropFirst().dropLast()))
      } else {
        self = JSONNumber.isNumber(text) ? .number(JSONNumber(Array(text.utf8))) : .text(text)
      }
    }
  }

  /// The value at a path of property names; null when there is none.
  subscript(path: [String]) -> JSONTree {
    var value = self
    for name in path {
      guard case .object(let members) = value, let member = members[name] else { return .null }
      value = member
    }
    return value
  }

  private var rank: Int {
    switch self {
    case .null: 0
    case .bool: 1
    case .number: 2
    case .text: 3
    case .list: 4
    case .object: 5
    }
  }

  func precedes(_ other: JSONTree) -> Bool {
    switch (self, other) {
    case (.bool(let left), .bool(let right)): !left && right
    case (.number(let left), .number(let right)): left < right
    case (.text(let left), .text(let right)): left < right
    default: rank < other.rank
    }
  }

  /// Whether both are values of one type that has an order.
  func isComparable(with other: JSONTree) -> Bool { rank == other.rank && (1...3).contains(rank) }
}

extension JSONScanner {
  /// Reads the next value of a text that was checked before.
  fileprivate mutating func value(
    of bytes: UnsafeBufferPointer<UInt8>
  ) throws(LineProblem) -> JSONTree {
    let start = position
    switch next {
    case UInt8(ascii: "{"):
      var members: [String: JSONTree] = [:]
      try object { (scanner, range) throws(LineProblem) in
        let name = try Self.text(range, of: bytes)
        let member = try scanner.value(of: bytes)
        // The first of several members with one name counts, as for Foundation's parser.
        if members[name] == nil { members[name] = member }
      }
      return .object(members)
    case UInt8(ascii: "\""): return .text(try Self.text(try string(), of: bytes))
    default:
      try skipValue()
      switch bytes[start] {
      case UInt8(ascii: "["): return .list
      case UInt8(ascii: "t"): return .bool(true)
      case UInt8(ascii: "f"): return .bool(false)
      case UInt8(ascii: "n"): return .null
      default: return .number(JSONNumber(Array(bytes[start..<position])))
      }
    }
  }

  private static func text(
    _ range: Range<Int>, of bytes: UnsafeBufferPointer<UInt8>
  ) throws(LineProblem) -> String {
    String(decoding: try decoded(range, of: bytes), as: UTF8.self)
  }
}
