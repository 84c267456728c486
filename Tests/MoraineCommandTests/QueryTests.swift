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
