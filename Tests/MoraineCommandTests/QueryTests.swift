import Foundation
import Moraine
import SystemPackage
import Testing

/// The commands query and indexes.
@Suite struct QueryTests {
  private struct User: Codable, Identifiable, Sendable {
    var id: Int
    var name: String
    var age: Int
    var city: String?
  }

  let place: Place

  init() throws { place = try Place() }

  private func fill() async throws {
    let store = try await Store.open(at: FilePath(place.store))
    let users = try LocalRepository<User>(
      in: store, named: "users",
      indexes: [.index("age", on: \.age), .index("city", on: \.city)])
    try await users.save(contentsOf: [
      User(id: 1, name: "Ada", age: 36, city: "London"), User(id: 2, name: "Grace", age: 85),
      User(id: 3, name: "18", age: 18, city: "Zug"),
    ])
    try await users.buildIndexes()
    // A program that knows no index.
    try await users.keyspace.set(Array(#"{"id":4,"name":"Kurt","age":71}"#.utf8), forKey: "4")
    try await store.close()
  }

  private func ids(_ arguments: String...) async throws -> [Int] {
    let all = ["query", place.store, "--repository", "users"] + arguments
    let outcome = try await Moraine.run(all)
    #expect(outcome.code == 0, "\(outcome.errors)")
    return try outcome.lines.dropLast().map {
      try JSONDecoder().decode(User.self, from: Data($0.utf8)).id
    }
  }

  @Test func queryPrintsTheModelsThatFulfilTheConditions() async throws {
    try await fill()
    #expect(try await ids() == [1, 2, 3, 4])
    #expect(try await ids("--where", "age >= 36", "--sort", "age") == [1, 4, 2])
    #expect(try await ids("--where", "age < 85", "--where", "city != Zug") == [1, 4])
    #expect(try await ids("--where", "city = null", "--sort", "age", "--descending") == [2, 4])
    #expect(try await ids("--where", #"name = "18""#) == [3])
    #expect(try await ids("--where", "name = 18").isEmpty)
    #expect(try await ids("--sort", "name", "--limit", "2") == [3, 1])
    let count = try await Moraine.run(
      "query", place.store, "--repository", "users", "--where", "age > 36", "--count")
    #expect(count.text == "2\n")
    let misuse = try await Moraine.run("query", place.store, "--where", "age")
    #expect(misuse.code == 2)
    #expect(misuse.errors.contains("--where takes a property, an operator and a value"))
  }

  /// Regression: each number was read as a `Double`. Ids of neighbouring integers were equal, texts
  /// that `Double` accepts were numbers in a condition, and a number beyond its range, which load
  /// accepts, ended the query.
  @Test func numbersAreComparedExactlyAndWordsAsText() async throws {
    let models = [
      #"{"id":9007199254740992,"city":"Nan"}"#, #"{"id":9007199254740993,"w":"infinity"}"#,
      #"{"id":18446744073709551615,"code":"0x1F"}"#, #"{"id":1e400,"code":"+41"}"#,
      #"{"id":-1e400,"code":"007"}"#, #"{"id":0.50,"w":[1,{"x":2}]}"#, #"{"id":-0,"w":1.0}"#,
    ]
    let (exact, next, largest, huge) = (models[0], models[1], models[2], models[3])
    let (smallest, half, zero) = (models[4], models[5], models[6])
    let loaded = try await Moraine.run("load", place.store, input: models.joined(separator: "\n"))
    #expect(loaded.code == 0, "\(loaded)")
    let table: [(condition: String, found: [String])] = [
      ("id = 9007199254740993", [next]), ("id = 9007199254740992.0", [exact]),
      ("id > 9007199254740992", [next, largest, huge]), ("id <= 5e-1", [smallest, half, zero]),
      ("id > 9007199254740992.5", [next, largest, huge]), ("id = 0", [zero]), ("id = .5", []),
      ("id = 18446744073709551615", [largest]), ("id = 18446744073709551616", []),
      ("id = 10e399", [huge]), ("id > 1e399", [huge]), ("id > 1e401", []),
      ("id < -1e399", [smallest]), ("id < -1e400", []),
      ("city = Nan", [exact]), ("city != Nan", Array(models.dropFirst())), ("city = nan", []),
      ("w = infinity", [next]), ("w = 1", [zero]), ("code = 0x1F", [largest]), ("code = 31", []),
      ("code = +41", [huge]), ("code = 007", [smallest]), ("code = 7", []),
    ]
    for (condition, found) in table {
      let outcome = try await Moraine.run("query", place.store, "--where", condition)
      #expect(outcome.code == 0, "\(condition): \(outcome.errors)")
      #expect(outcome.lines.dropLast().sorted() == found.sorted(), "\(condition)")
    }
    let sorted = try await Moraine.run("query", place.store, "--sort", "id")
    #expect(sorted.lines.dropLast() == [smallest, zero, half, exact, next, largest, huge])
  }

  /// Regression: a second space before the value, and a space after it, were part of the value.
  @Test func spacesAroundAValueDoNotCount() async throws {
    try await fill()
    #expect(try await ids("--where", "age =  18") == [3])
    #expect(try await ids("--where", " age  =  18 ") == [3])
    #expect(try await ids("--where", "city =   Zug  ") == [3])
    #expect(try await ids("--where", "city = null ", "--sort", "age") == [4, 2])
    #expect(try await ids("--where", #"city =  "Zug" "#) == [3])
    #expect(try await ids("--where", #"city = " Zug""#).isEmpty)
  }

  /// Regression: the message printed the key as it is, and a terminal obeyed it.
  @Test func keyOfAModelThatIsNotJSONIsPrintable() async throws {
    #expect(try await Moraine.run("put", place.store, "a\u{1B}[31mb", "1 2").code == 0)
    let outcome = try await Moraine.run("query", place.store)
    #expect(outcome.code == 2, "\(outcome)")
    #expect(outcome.errors.contains(#"the model 'a\x1b[31mb' is not JSON"#), "\(outcome)")
  }

  @Test func modelsThatAreNotJSONEndTheQuery() async throws {
    for value in [#"{"id":1"#, #"{"id":1}}"#, #"{"id":01}"#, "1 2"] {
      #expect(try await Moraine.run("put", place.store, "k", value).code == 0)
      let outcome = try await Moraine.run("query", place.store, "--where", "id = 1")
      #expect(outcome.code == 2 && outcome.errors.contains("the model 'k' is not JSON"), "\(value)")
    }
  }

  @Test func indexesPrintsStateEntriesAndMarks() async throws {
    try await fill()
    let text = try await Moraine.run("indexes", place.store)
    #expect(
      text.lines == [
        "   entries  state     pending  keyspace, index",
        "         3  ready           1  users, age", "         3  ready           1  users, city",
        "",
      ])
    let json = try await Moraine.run("indexes", place.store, "--json")
    let objects = try JSONSerialization.jsonObject(with: Data(json.output)) as? [[String: Any]]
    #expect(objects?.count == 2)
    #expect(objects?.first?["name"] as? String == "age")
    #expect(try await Moraine.run("verify", place.store).code == 0)
  }
}
