import Moraine
import MoraineArchive
import MoraineEngine
import Testing

private struct Person: Codable, Identifiable, Equatable, Sendable {
  var id: Int
  var age: Int
}

/// A repository in the store of a follower.
@Suite(.timeLimit(.minutes(5))) struct FollowedRepositoryTests {
  private func people(
    _ store: Store, _ indexes: [ModelIndex<Person>] = []
  ) throws -> LocalRepository<Person> {
    try LocalRepository(in: store, named: "people", indexes: indexes)
  }

  /// Regression: a repository could not be read while it declared an index that the archived store
  /// did not have: each read tried to add it, and threw `.readOnly`.
  @Test func repositoryWithANewIndexReadsAFollower() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let all = [Person(id: 1, age: 20), Person(id: 2, age: 30), Person(id: 3, age: 30)]
    try await people(store).save(contentsOf: all)
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    let people = try people(follower.store, [.index("age", on: \.age)])
    let query = people.query(where: \.age, is: 30)
    #expect(try await people.loadAll() == all)
    #expect(try await people.find(by: 2) == all[1])
    #expect(try await query.fetch().map(\.id).sorted() == [2, 3])
    #expect(try await people.indexStatus().map(\.isReady) == [false])
    let found = try await follower.store.transaction { transaction in
      try await people.find(by: 3, in: transaction)
    }
    #expect(found == all[2])
    let saving = await #expect(throws: StoreError.self) {
      try await people.save(Person(id: 4, age: 30))
    }
    #expect(saving?.code == .readOnly)
    let building = await #expect(throws: StoreError.self) { try await people.buildIndexes() }
    #expect(building?.code == .readOnly)
    let (next, nextWriter) = try await follower.promote()
    try await people.save(Person(id: 4, age: 30))
    try await people.buildIndexes()
    #expect(try await query.explain().index == "age")
    #expect(try await query.fetch().map(\.id).sorted() == [2, 3, 4])
    try await nextWriter.detach()
    try await next.close()
    await writer.abandon()
    try await store.close()
  }
}
