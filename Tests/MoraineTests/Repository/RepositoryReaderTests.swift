import Moraine
import MoraineEngine
import MoraineTesting
import Testing

/// Models that are found without the actor.
@Suite(.timeLimit(.minutes(1))) struct RepositoryReaderTests {
  private struct User: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var name: String
  }

  @Test(arguments: [CachePolicy.none, .all])
  func readerFindsEachModelThatWasSaved(cache: CachePolicy) async throws {
    let store = Store.inMemory()
    let users = try LocalRepository<User>(in: store, named: "users")
    let reader = try await users.reader(cache: cache)
    #expect(try reader.find(by: 1) == nil)
    for round in 0..<20 {
      try await users.save(User(id: 1, name: "\(round)"))
      // The second time from memory.
      for _ in 0..<2 { #expect(try reader.find(by: 1)?.name == "\(round)") }
    }
    try await users.save(contentsOf: (1...3).map { User(id: $0, name: "batch") })
    #expect(try reader.find(by: 1)?.name == "batch")
    #expect(try reader.find(by: 3)?.name == "batch")
    try await users.delete(1)
    #expect(try reader.find(by: 1) == nil)
    try await store.keyspace(named: "users").set([0x7B], forKey: "2")
    do {
      _ = try reader.find(by: 2)
      Issue.record("a model that cannot be decoded was found")
    } catch { #expect(error.code == .decodingFailed) }
    try await store.close()
    do {
      _ = try reader.find(by: 3)
      Issue.record("a model of a closed store was found")
    } catch { #expect(error.code == .closed) }
  }

  @Test func readerHidesModelsThatHaveExpired() async throws {
    let clock = ManualClock(startingAt: 1000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let users = try LocalRepository<User>(in: store, named: "users")
    let reader = try await users.reader()
    try await users.save(User(id: 1, name: "a"), expiring: .after(.seconds(1)))
    #expect(try reader.find(by: 1)?.name == "a")
    clock.advance(by: .seconds(1))
    #expect(try reader.find(by: 1) == nil)
    try await store.close()
  }

  @MainActor @Test func readerFindsModelsInSynchronousCodeOfTheMainActor() async throws {
    let users = try LocalRepository<User>(in: Store.inMemory(), named: "users")
    let reader = try await users.reader()
    try await users.save(User(id: 7, name: "Ada"))
    @MainActor func title() throws -> String { try reader.find(by: 7)?.name ?? "" }
    #expect(try title() == "Ada")
  }
}
