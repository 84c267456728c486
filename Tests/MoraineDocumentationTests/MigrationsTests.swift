import Moraine
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
    try await users.save(contentsOf: users.loadAll())
    let new = try #require(try await users.keyspace.value(forKey: "7"))
    #expect(String(decoding: new, as: UTF8.self).contains("Ada Lovelace"))
    try await users.keyspace.store.close()
  }
}
