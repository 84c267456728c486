import Foundation
import Moraine
import Testing

/// The code of the articles Queries and indexes, Coming from GRDB and Coming from SwiftData.
@Suite struct QueriesArticleTests {
  private struct User: Codable, Identifiable, Sendable {
    var id: Int
    var email: String
    var name: String
    var city = "Bern"
    var age = 25
    var tags: [String] = []
    var isActive = true
    var lastSeen = Date(timeIntervalSince1970: 0)
  }

  private struct Player: Codable, Identifiable, Sendable {
    var id: Int
    var name: String
    var score: Int
  }

  private struct Trip: Codable, Identifiable, Sendable {
    var id: Int
    var name: String
    var start: Date
  }

  private func declared(in store: Store) throws -> LocalRepository<User> {
    let users = try LocalRepository<User>(
      in: store, named: "users",
      indexes: [
        .unique("email", on: \.email),
        .index("city, name", on: \.city, \.name),
        .index("age", on: \.age),
        .index("tags", onEach: \.tags),
        .index("active", on: \.lastSeen, where: \.isActive),
      ])
    return users
  }

  @Test func queriesUseTheIndexes() async throws {
    let users = try declared(in: Store.inMemory())
    try await users.save(contentsOf: [
      User(id: 1, email: "ada@example.org", name: "Ada", tags: ["swift"]),
      User(id: 2, email: "grace@example.org", name: "Grace"),
      User(id: 3, email: "edsger@example.org", name: "Edsger", age: 29),
    ])
    try await users.buildIndexes()
    let ada = try await users.find(\.email, "ada@example.org")
    let page = try await users.query(where: \.city, is: "Bern").sorted(by: \.name).limit(50).page()
    let next = try await users.query(where: \.city, is: "Bern").sorted(by: \.name).limit(50)
      .page(after: page.next)
    let young = try await users.query(where: \.age, in: 20..<30).count()
    let named = try await users.query(where: \.name, hasPrefix: "Ad").fetch()
    let tagged = try await users.query(whereAny: \.tags, is: "swift").fetch()
    let recent = try await users.query().using("active").sorted(by: \.lastSeen, .descending)
      .limit(10).fetch()
    let adults = try await users.fetch(#Predicate<User> { $0.age >= 18 && $0.city == "Bern" })
    #expect(ada?.id == 1)
    #expect(page.models.map(\.name) == ["Ada", "Edsger", "Grace"])
    #expect(next.models.count == 3)
    #expect(young == 3)
    #expect(named.map(\.id) == [1])
    #expect(tagged.map(\.id) == [1])
    #expect(recent.count == 3)
    #expect(adults.count == 3)
    let plan = try await users.query(where: \.age, in: 20..<30).explain()
    print(plan)  // 3 entries of the index 'age'
    #expect("\(plan)" == "3 entries of the index 'age'")
  }

  @MainActor @Test func listFollowsAQuery() async throws {
    let users = try declared(in: Store.inMemory())
    try await users.save(User(id: 1, email: "a", name: "Ada"))
    let list = LiveModels(users.query(where: \.city, is: "Bern").sorted(by: \.name))
    while list.models.count < 1 { await Task.yield() }
    try await users.save(User(id: 2, email: "g", name: "Grace"))
    try await users.save(User(id: 3, email: "z", name: "Zuse", city: "Zug"))
    while list.results.count < 2 { await Task.yield() }
    #expect(list.results.map(\.name) == ["Ada", "Grace"])
    try await users.delete(1)
    while list.results.count > 1 { await Task.yield() }
    #expect(list.models.map(\.name) == ["Grace"])
    try await users.keyspace.store.close()
  }

  @Test func taskTakesTheUpdatesOfAQuery() async throws {
    let users = try declared(in: Store.inMemory())
    try await users.save(User(id: 1, email: "a", name: "Ada"))
    var shown: [String] = []
    func show(_ models: QueryModels<User>, after steps: [QueryStep]) {
      shown = models.map(\.name)
    }
    Task { try await users.keyspace.store.close() }
    for try await update in users.query(where: \.city, is: "Bern").updates {
      show(update.models, after: update.steps)
    }
    #expect(shown == ["Ada"] || shown.isEmpty)
  }

  @Test func comingFromOtherLibraries() async throws {
    let store = Store.inMemory()
    let players = try LocalRepository<Player>(
      in: store, named: "players", indexes: [.index("score", on: \.score)])
    try await players.save(Player(id: 1, name: "Arthur", score: 100))
    let best = try await players.query().sorted(by: \.score, .descending).limit(10).fetch()
    #expect(best.map(\.id) == [1])
    let trips = try LocalRepository<Trip>(
      in: store, named: "trips", indexes: [.index("start", on: \.start)])
    try await trips.save(Trip(id: 1, name: "Alps", start: .now))
    let now = Date.now
    let past = try await trips.fetch(
      #Predicate<Trip> { $0.start < now }, sortBy: [SortDescriptor(\.start)])
    #expect(past.count == 1)
  }
}
