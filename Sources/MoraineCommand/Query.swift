import ArgumentParser
import Foundation
import Moraine

struct Query: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the JSON models of a repository that fulfil conditions.",
    discussion: """
      A condition is a property, an operator and a value: 'city = Bern', 'age >= 18',
      'address.zip != 3000'. The operators are =, !=, <, <=, > and >=. A value that is
      a number, true, false or null is compared as such, any other as text; "18" in
      quotation marks is text. A model that lacks the property fulfils only !=, and
      = null. Several conditions must all be fulfilled.

      Each line is a model, as "dump" prints it. Models of another format than JSON are
      an error. The command does not know the types of the models, so it decodes all of
      them; a program that declares the indexes does not.

        moraine query shop.moraine --repository users --where 'age >= 18' --sort name
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "The keyspace of the repository; by default the unnamed one.")
  var repository = ""
  @Option(name: .customLong("where"), help: "A condition. The option can be repeated.")
  var conditions: [String] = []
  @Option(help: "Sort by this property.") var sort: String?
  @Flag(help: "Sort the other way round.") var descending = false
  @Option(help: "Print at most this number of models.") var limit: Int?
  @Flag(help: "Print only the number of models.") var count = false

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit takes a number from 0") }
    for condition in conditions { _ = try Condition(condition) }
  }

  func run() async throws {
    let tests = try conditions.map(Condition.init)
    let place = sort.map(Condition.path)
    let most = limit ?? .max
    let found = try await store.reading { store in
      let decoder = JSONDecoder()
      var found: [(text: [UInt8], place: JSONTree)] = []
      try await store.keyspace(named: repository).scan { entry in
        let object: JSONTree
        do { object = try decoder.decode(JSONTree.self, from: Data(entry.value)) } catch {
          throw Failure(
            code: 2, message: "the model '\(entry.key)' is not JSON; query reads JSON models only")
        }
        guard tests.allSatisfy({ $0.holds(object) }) else { return true }
        found.append((entry.value, place.map { object[$0] } ?? .null))
        return place != nil || count || found.count < most
      }
      return found
    }
    let sorted =
      place == nil
      ? found
      : found.sorted { descending ? $1.place.precedes($0.place) : $0.place.precedes($1.place) }
    if count { return try Output.line("\(min(sorted.count, most))") }
    for model in sorted.prefix(most) {
      try Output.write { $0 += model.text + [UInt8(ascii: "\n")] }
    }
  }
}

/// A value in a JSON model.
private enum JSONTree: Decodable, Equatable, Sendable {
  case null
  case bool(Bool)
  case number(Double)
  case text(String)
  case list([JSONTree])
  case object([String: JSONTree])

  init(from decoder: any Decoder) throws {
    let value = try decoder.singleValueContainer()
    if value.decodeNil() {
      self = .null
    } else if let bool = Self.decoded(Bool.self, value) {
      self = .bool(bool)
    } else if let number = Self.decoded(Double.self, value) {
      self = .number(number)
    } else if let text = Self.decoded(String.self, value) {
      self = .text(text)
    } else if let list = Self.decoded([JSONTree].self, value) {
      self = .list(list)
    } else {
      self = .object(try value.decode([String: JSONTree].self))
    }
  }

  /// Returns nil for a value of another type.
  private static func decoded<Value: Decodable>(
    _ type: Value.Type, _ container: any SingleValueDecodingContainer
  ) -> Value? {
    do { return try container.decode(type) } catch { return nil }
  }

  /// Creates the value that a condition compares with.
  init(_ text: String) {
    switch text {
    case "null": self = .null
    case "true", "false": self = .bool(text == "true")
    default:
      if text.count > 1, text.hasPrefix("\""), text.hasSuffix("\"") {
        self = .text(String(text.dropFirst().dropLast()))
      } else {
        self = Double(text).map { .number($0) } ?? .text(text)
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

/// A condition on a property of a JSON model.
private struct Condition: Sendable {
  private static let operators = ["<=", ">=", "!=", "=", "<", ">"]

  private let path: [String]
  private let comparison: String
  private let value: JSONTree

  init(_ text: String) throws {
    let words = text.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: true)
    guard words.count >= 2, Self.operators.contains(String(words[1])) else {
      throw ValidationError(
        "--where takes a property, an operator and a value, with spaces between them, as in "
          + "'age >= 18', and not '\(text)'")
    }
    path = Self.path(String(words[0]))
    comparison = String(words[1])
    value = JSONTree(words.count > 2 ? String(words[2]) : "")
  }

  static func path(_ text: String) -> [String] {
    text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
  }

  func holds(_ object: JSONTree) -> Bool {
    let found = object[path]
    switch comparison {
    case "=": return found == value
    case "!=": return found != value
    default: break
    }
    guard found.isComparable(with: value) else { return false }
    switch comparison {
    case "<": return found.precedes(value)
    case ">": return value.precedes(found)
    case "<=": return !value.precedes(found)
    default: return !found.precedes(value)
    }
  }
}
