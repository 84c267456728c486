import Moraine
import MoraineEngine
import MoraineTesting
import Testing

/// Models that are saved without a call of an actor.
@Suite(.timeLimit(.minutes(1))) struct RepositoryWriteQueueTests {
  private struct User: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var name: String
  }

  @Test func queueFindsTheModelsThatItSavesAndDeletes() async throws {
    let store = Store.inMemory()
    let users = try LocalRepository<User>(in: store, named: "users")
    let queue = try await users.writeQueue()
    for round in 0..<500 {
      let user = User(id: round % 10, name: "\(round)")
      try await queue.save(user)
      #expect(try queue.find(by: user.id) == user)
      if round % 3 == 0 {
        try await queue.delete(user.id)
        #expect(try queue.find(by: user.id) == nil)
      }
    }
    #expect(try queue.trySave(User(id: 10, name: "last")))
    #expect(try queue.tryDelete(9))
    try await queue.flush()
    #expect(try await users.find(by: 10)?.name == "last")
    #expect(try await users.find(by: 9) == nil)
    #expect(try await users.find(by: 7)?.name == "497")
    #expect(try await users.find(by: 8) == nil, "round 498 has deleted it")
    #expect(try await users.loadAll().count == users.count())
    try await store.close()
  }

  @Test func queuedModelEndsAtItsExpiry() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let users = try LocalRepository<User>(in: store, named: "users")
    let queue = try await users.writeQueue()
    try await queue.save(User(id: 1, name: "a"), expiring: .after(.seconds(5)))
    #expect(try queue.trySave(User(id: 2, name: "b"), expiring: .after(.seconds(6))))
    try await queue.save(User(id: 3, name: "c"))
    try await queue.flush()
    #expect(try await users.loadAll().count == 3)
    clock.advance(by: .seconds(5))
    #expect(try queue.find(by: 1) == nil)
    #expect(try queue.find(by: 2) != nil)
    clock.advance(by: .seconds(1))
    #expect(try await users.loadAll().map(\.id) == [3])
    try await store.close()
  }

  /// The repository may have the model in memory when the queue replaces it.
  @Test func repositoryFindsWhatWasFlushed() async throws {
    let users = try LocalRepository<User>(in: Store.inMemory(), named: "users")
    let queue = try await users.writeQueue()
    try await users.save(User(id: 1, name: "a"))
    #expect(try await users.find(by: 1)?.name == "a")
    for round in 0..<100 {
      try await queue.save(User(id: 1, name: "\(round)"))
      try await queue.flush()
      #expect(try await users.find(by: 1)?.name == "\(round)")
    }
  }

  @Test func savesThatShareAQueueKeepTheirOrder() async throws {
    let store = Store.inMemory()
    let users = try LocalRepository<User>(in: store, named: "users")
    let others = try LocalRepository<User>(in: store, named: "others")
    let queue = try await store.writeQueue()
    let (first, second) = (
      try await users.writeQueue(sharing: queue), try await others.writeQueue(sharing: queue)
    )
    let changes = store.changes()
    for number in 0..<100 {
      try await first.save(User(id: number, name: ""))
      try await second.save(User(id: number, name: ""))
    }
    try await queue.flush()
    var seen: [String] = []
    for try await change in changes {
      seen.append(change.keyspace)
      if seen.count == 200 { break }
    }
    #expect(seen == (0..<100).flatMap { _ in ["users", "others"] })
    try await store.close()
  }

  @Test func modelsOfAQueueAreFoundByTheirIndexes() async throws {
    let users = try LocalRepository<User>(
      in: Store.inMemory(), named: "users", indexes: [.index("name", on: \.name)])
    let queue = try await users.writeQueue()
    for number in 0..<100 {
      try await queue.save(User(id: number, name: number % 2 == 0 ? "even" : "odd"))
    }
    try await queue.flush()
    #expect(try await users.count() == 100)
    #expect(try await users.query(where: \.name, is: "odd").requiringIndex().fetch().count == 50)
  }
}
