import MoraineTesting
import Testing

@testable import Moraine

/// Models that seemed to have expired, because the clock was ahead by less than the grace.
@Suite(.timeLimit(.minutes(10))) struct ExpiredModelTests {
  private static let start: UInt64 = 1_700_000_000_000

  private let clock = ManualClock(startingAt: Self.start)
  private let disk = SimulatedDisk()

  private func open() throws -> Store {
    var configuration = Store.Configuration()
    configuration.clock = clock
    return try disk.openStore(configuration: configuration)
  }

  private func person(_ id: Int, _ email: String) -> Person {
    Person(id: id, email: email, age: 7, city: "Bern")
  }

  /// Saves models, and builds indexes while the clock is 90 minutes ahead.
  ///
  /// - Parameters:
  ///   - ending: models that end after an hour.
  ///   - lasting: models that do not end.
  /// - Returns: the store, opened again with a clock that is right.
  private func store(
    ending: [Person], lasting: [Person], _ indexes: [ModelIndex<Person>]
  ) async throws -> Store {
    let first = try open()
    let plain = try LocalRepository<Person>(in: first, named: "people")
    for model in ending { try await plain.save(model, expiring: .after(.seconds(3600))) }
    try await plain.save(contentsOf: lasting)
    try await first.close()
    clock.set(toMilliseconds: Self.start + 5_400_000)
    let second = try open()
    let ahead = try LocalRepository<Person>(in: second, named: "people", indexes: indexes)
    #expect(try await ahead.loadAll().count == lasting.count)
    try await ahead.buildIndexes()
    #expect(try await ahead.indexStatus().allSatisfy(\.isReady))
    try await second.close()
    clock.set(toMilliseconds: Self.start)
    return try open()
  }

  @Test func modelThatComesBackIsInAnIndexThatWasBuiltWithoutIt() async throws {
    let indexes: [ModelIndex<Person>] = [
      .unique("email", on: \.email), .index("age", on: \.age),
    ]
    let store = try await store(
      ending: [person(1, "ada")], lasting: [person(2, "bob")], indexes)
    let people = try LocalRepository<Person>(in: store, named: "people", indexes: indexes)
    #expect(try await people.loadAll().map(\.id).sorted() == [1, 2])
    let query = people.query(where: \.age, is: 7)
    #expect(try await query.explain().index == "age")
    #expect(try await query.fetch().map(\.id).sorted() == [1, 2])
    #expect(try await query.count() == 2)
    #expect(try await people.find(\.email, "ada")?.id == 1)
    let error = await #expect(throws: StoreError.self) {
      try await people.save(person(3, "ada"))
    }
    #expect(error?.code == .notUnique)
    #expect(try await store.verify().problems.isEmpty)
    try await store.close()
  }

  /// Regression: an index of expired models alone was called ready, and the next save added it as
  /// one that must be built.
  @Test func indexOfExpiredModelsIsAddedBeforeItIsReady() async throws {
    let store = try open()
    let plain = try LocalRepository<Person>(in: store, named: "people")
    try await plain.save(person(1, "ada"), expiring: .after(.seconds(3600)))
    clock.set(toMilliseconds: Self.start + 5_400_000)
    let people = try LocalRepository<Person>(
      in: store, named: "people", indexes: [.index("age", on: \.age)])
    #expect(try await people.indexStatus().map(\.name) == ["age"])
    let indexes = try #require(people.indexes)
    let catalog = try await indexes.readCatalog()
    #expect(catalog.indexes.map(\.name) == ["age"])
    try await people.buildIndexes()
    #expect(try await people.indexStatus().allSatisfy(\.isReady))
    try await store.close()
  }

  /// An expired model takes a unique value from no other model, whether that one has expired or
  /// not. It gets a mark instead.
  @Test func modelsThatShareAUniqueValueAllComeBack() async throws {
    let indexes: [ModelIndex<Person>] = [.unique("email", on: \.email)]
    let store = try await store(
      ending: [person(1, "ada"), person(3, "bob"), person(4, "bob")],
      lasting: [person(2, "ada")], indexes)
    let people = try LocalRepository<Person>(in: store, named: "people", indexes: indexes)
    #expect(try await people.loadAll().map(\.id).sorted() == [1, 2, 3, 4])
    for (email, ids) in [("ada", [1, 2]), ("bob", [3, 4])] {
      let query = people.query(where: \.email, is: email)
      #expect(try await query.explain().index == "email")
      #expect(try await query.fetch().map(\.id).sorted() == ids)
      #expect(try await query.count() == 2)
    }
    #expect(try await store.verify().problems.isEmpty)
    try await store.close()
  }

  /// Another program has saved a model with the value, and the index is built while the first model
  /// seems to have expired.
  @Test func buildTakesAUniqueValueFromAnExpiredModelAndKeepsTheModel() async throws {
    let indexes: [ModelIndex<Person>] = [
      .unique("email", on: \.email), .index("age", on: \.age),
    ]
    let first = try open()
    let indexed = try LocalRepository<Person>(in: first, named: "people", indexes: indexes)
    try await indexed.save(person(1, "ada"), expiring: .after(.seconds(3600)))
    let plain = try LocalRepository<Person>(in: first, named: "people")
    try await plain.save(person(2, "ada"))
    try await first.close()
    clock.set(toMilliseconds: Self.start + 5_400_000)
    let second = try open()
    let ahead = try LocalRepository<Person>(in: second, named: "people", indexes: indexes)
    #expect(try await ahead.loadAll().map(\.id) == [2])
    try await ahead.buildIndexes()
    #expect(try await ahead.find(\.email, "ada")?.id == 2)
    #expect(try await ahead.query(where: \.email, is: "ada").explain().pendingCount == 0)
    #expect(try await second.verify().problems.isEmpty)
    try await second.close()
    clock.set(toMilliseconds: Self.start)
    let store = try open()
    let people = try LocalRepository<Person>(in: store, named: "people", indexes: indexes)
    #expect(try await people.loadAll().map(\.id).sorted() == [1, 2])
    for query in [people.query(where: \.email, is: "ada"), people.query(where: \.age, is: 7)] {
      #expect(try await query.explain().index != nil)
      #expect(try await query.fetch().map(\.id).sorted() == [1, 2])
      #expect(try await query.count() == 2)
    }
    #expect(try await store.verify().problems.isEmpty)
    // When one of the two changes, both are in the index.
    try await people.save(person(1, "eve"))
    try await people.buildIndexes()
    #expect(try await people.find(\.email, "ada")?.id == 2)
    #expect(try await people.find(\.email, "eve")?.id == 1)
    #expect(try await people.query(where: \.email, is: "ada").explain().pendingCount == 0)
    #expect(try await store.verify().problems.isEmpty)
    try await store.close()
  }
}
