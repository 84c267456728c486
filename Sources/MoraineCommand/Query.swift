import ArgumentParser
import Moraine

struct Query: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the JSON models of a repository that fulfil conditions.",
    discussion: """
      A condition is a property, an operator and a value: 'city = Bern', 'age >= 18',
      'address.zip != 3000'. The operators are =, !=, <, <=, > and >=. A value that
      is true, false, null or a number as JSON writes it is compared as such, any
      other as text; "18" in quotation marks is text. Numbers are compared exactly,
      with all of their digits. A model that lacks the property fulfils only !=,
      and = null. Several conditions must all be fulfilled.

      Each line is a model, as "dump" prints it. Models of another format than JSON
      are an error. The command does not know the types of the models, so it decodes
      all of them; a program that declares the indexes does not.

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
      var found: [(text: [UInt8], place: JSONTree)] = []
      let keyspace = try await store.existingKeyspace(named: repository)
      try await keyspace.scan { entry in
        let object: JSONTree
        do throws(LineProblem) { object = try JSONTree(model: entry.value) } catch {
          throw Failure(
            code: 2,
            message: "the model '\(Text.printable(entry.key.bytes))' is not JSON; "
              + "query reads JSON models only")
        }
        guard tests.allSatisfy({ $0.holds(object) }) else { return true }
        found.append((entry.value, place.map { object[$0] } ?? .null))
        return place != nil || count || found.count < most
      }
      if found.isEmpty { try await store.noteNamedKeyspaces(beside: keyspace) }
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
    // Quotation marks keep the spaces within them.
    let rest = words.count > 2 ? String(words[2]).replacing(/^ +| +$/, with: "") : ""
    value = JSONTree(condition: rest)
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
