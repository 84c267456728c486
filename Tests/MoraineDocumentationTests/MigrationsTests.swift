import Moraine
import MoraineTesting
import Testing

@Suite struct MigrationsTests {
  struct User: Codable, Identifiable, Sendable {
    let id: Int
    var name: String
  }

  struct UserV1: Decodable {
    let id: Int
    var first: String
    var last: String
  }

  @Test func aModelIsReadInItsPresentShape() async throws {
    let ground = try Ground()
    let folder = ground.folder
    let format = ModelFormat<User>.json(version: 2)
      .migrating(from: 1, UserV1.self) { User(id: $0.id, name: "\($0.first) \($0.last)") }
    let users = try LocalRepository<User>(directory: folder, filename: "users", format: format)

    let old = Array(#"{"id":7,"first":"Ada","last":"Lovelace"}"#.utf8)
    try await users.keyspace.set(old, forKey: "7")
    #expect(try await users.find(by: 7)?.name == "Ada Lovelace")
    for user in try await users.loadAll() {
      try await users.update(user.id) { $0 }
    }
    let new = try #require(try await users.keyspace.value(forKey: "7"))
    #expect(String(decoding: new, as: UTF8.self).contains("Ada Lovelace"))
    try await users.keyspace.store.close()
  }

  @Test func conversionOfAllModelsKeepsTheTimesAtWhichTheyEnd() async throws {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let format = ModelFormat<User>.json(version: 2)
      .migrating(from: 1, UserV1.self) { User(id: $0.id, name: "\($0.first) \($0.last)") }
    let users = try LocalRepository<User>(in: store, named: "users", format: format)
    let old = Array(#"{"id":7,"first":"Ada","last":"Lovelace"}"#.utf8)
    try await users.keyspace.set(old, forKey: "7", expiring: .after(.seconds(60)))
    try await users.keyspace.set(old, forKey: "8")
    let end = try #require(try await users.keyspace.expiry(forKey: "7"))
    #expect(end != .never)
    for user in try await users.loadAll() where user.id == 7 {
      try await users.update(user.id) { $0 }
      // A model that was deleted since the reading stays deleted.
      try await users.delete(8)
      try await users.update(8) { $0 }
    }
    #expect(try await users.find(by: 8) == nil)
    let new = try #require(try await users.keyspace.value(forKey: "7"))
    #expect(String(decoding: new, as: UTF8.self).contains("Ada Lovelace"))
    #expect(try await users.keyspace.expiry(forKey: "7") == end)
    clock.advance(by: .seconds(60))
    #expect(try await users.loadAll().isEmpty)
    try await store.close()
  }
}
