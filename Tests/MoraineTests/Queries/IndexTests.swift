import Foundation
import MoraineTesting
import Testing

@testable import Moraine

/// Indexes of a repository: unique values, building, and programs that do not know them.
@Suite(.timeLimit(.minutes(10))) struct IndexTests {
  private func people(
    _ store: Store, _ indexes: [ModelIndex<Person>] = Person.indexes,
    format: ModelFormat<Person> = .json
  ) throws -> LocalRepository<Person> {
    try LocalRepository(in: store, named: "people", format: format, indexes: indexes)
  }

  private func person(_ id: Int, _ email: String?, age: Int = 30, city: String = "Bern") -> Person {
    Person(id: id, email: email, age: age, city: city)
  }

  /// The next release of a program says that the index does not depend on the models' version.
  @Test func indexThatBecomesStableReplacesTheEarlierOne() async throws {
    let store = Store.inMemory()
    let before = try people(store, [.unique("email", on: \.email)])
    try await before.save(person(1, "ada@example.org"))
    try await before.buildIndexes()
    let after = try people(store, [.unique("email", on: \.email).stableAcrossVersions()])
    try await after.buildIndexes()
    #expect(try await after.indexStatus().allSatisfy(\.isReady))
    let error = await #expect(throws: StoreError.self) {
      try await after.save(person(2, "ada@example.org"))
    }
    #expect(error?.code == .notUnique)
    #expect(try await after.find(\.email, "ada@example.org")?.id == 1)
  }

  @Test func uniqueIndexRefusesASecondModelWithTheValueAndNamesBoth() async throws {
    let people = try people(Store.inMemory())
    try await people.save(person(1, "ada@example.org"))
    let error = await #expect(throws: StoreError.self) {
      try await people.save(person(2, "ada@example.org"))
    }
    #expect(error?.code == .notUnique)
    #expect(error?.duplicate?.index == "email")
    #expect(error?.duplicate?.key == "2")
    #expect(error?.duplicate?.holder == "1")
    #expect(try await people.find(by: 2) == nil)
    // The same model may keep its value, and another may take it once it is free.
    try await people.save(person(1, "ada@example.org", age: 31))
    try await people.save(person(1, "lovelace@example.org"))
    try await people.save(person(2, "ada@example.org"))
    #expect(try await people.find(\.email, "ada@example.org")?.id == 2)
    try await people.delete(2)
    try await people.save(person(3, "ada@example.org"))
    #expect(try await people.find(\.email, "ada@example.org")?.id == 3)
  }

  /// The store has one record of several models with one id, so a batch has fewer numbers than
  /// models.
  @Test func lastOfSeveralSavedModelsWithOneIDIsFound() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<20).map { person(1, "\($0)", age: $0) })
    #expect(try await people.find(by: 1)?.age == 19)
    for age in 100..<200 { try await people.save(person(2, nil, age: age)) }
    try await people.save(
      contentsOf: [person(2, nil, age: 300)] + (0..<200).map { person(1, "\($0)", age: $0) })
    #expect(try await people.find(by: 1)?.age == 199)
    #expect(try await people.find(by: 2)?.age == 300)
    let fresh = try LocalRepository<Person>(in: store, named: "people", cache: .none)
    #expect(try await fresh.loadAll().map(\.age).sorted() == [199, 300])
  }

  @Test func indexesOfARepositoryWithoutModelsAreReadyAtOnce() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    #expect(try await people.query(where: \.age, is: 3).requiringIndex().fetch() == [])
    #expect(try await people.count() == 0)
    // Reading has written nothing.
    #expect(try await store.snapshot().sequence == .none)
    try await people.save(person(1, "a", age: 3))
    #expect(try await people.indexStatus().allSatisfy(\.isReady))
    #expect(try await people.query(where: \.age, is: 3).requiringIndex().count() == 1)
    #expect(try await people.query(where: \.age, is: 3).explain().index == "age")
  }

  @Test func indexThatIsDeclaredWhenAllModelsAreDeletedIsComplete() async throws {
    let store = Store.inMemory()
    let first = try people(store, Array(Person.indexes[..<1]))
    try await first.save(person(1, "a"))
    try await first.delete(1)
    let people = try people(store)
    #expect(try await people.query(where: \.age, is: 3).requiringIndex().fetch() == [])
    try await people.save(person(2, "b", age: 3))
    #expect(try await people.query(where: \.age, is: 3).requiringIndex().count() == 1)
  }

  private struct Note: Codable, Identifiable, Equatable {
    var id: String
    var rank: Int
  }

  @Test(arguments: [KeyOrder.ascending, .descending])
  func idsThatBeginWithOneAnotherHaveOneOrderWithAndWithoutAnIndex(order: KeyOrder) async throws {
    let store = Store.inMemory()
    // The length of the first id is the next byte of the second one.
    let id = String(repeating: "K", count: Int(UInt8(ascii: "-")))
    let ids = [id, id + "-2", id + "-", id + "A", "K"]
    let plain = try LocalRepository<Note>(in: store, named: "notes")
    try await plain.save(contentsOf: ids.map { Note(id: $0, rank: 1) })
    let sorted = try await plain.query().sorted(by: \.rank, order).fetch()
    let notes = try LocalRepository<Note>(
      in: store, named: "notes", indexes: [.index("rank", on: \.rank)])
    try await notes.buildIndexes()
    let query = notes.query().sorted(by: \.rank, order)
    #expect(try await query.explain().index == "rank")
    #expect(try await query.fetch() == sorted)
    var updates = plain.query().sorted(by: \.rank, order).updates.makeAsyncIterator()
    #expect(try await updates.next(isolation: nil).map { Array($0.models) } == sorted)
  }

  @Test func modelsCanBeReadWhenTheDiskIsTooFullForIndexes() async throws {
    let disk = SimulatedDisk()
    let plain = try disk.openStore()
    try await people(plain, []).save(contentsOf: (0..<9).map { person($0, "\($0)", age: $0 % 3) })
    try await plain.close()
    let fault = DiskFault(.noSpace, on: [.create], isPermanent: true)
    let store = try disk.openStore(faults: [fault])
    let people = try people(store)
    #expect(try await people.find(by: 4)?.age == 1)
    #expect(try await people.query(where: \.age, is: 2).count() == 3)
    #expect(try await people.loadAll().count == 9)
    await #expect(throws: StoreError.self) { try await people.save(person(10, "x")) }
    // Each of these calls tries to add the indexes itself.
    let (finder, loader) = (try self.people(store), try self.people(store))
    let found = try await store.transaction { transaction in
      try await finder.find(by: 4, in: transaction)
    }
    #expect(found?.age == 1)
    let loaded = try await store.transaction { transaction in
      try await loader.loadAll(in: transaction)
    }
    #expect(loaded.count == 9)
    #expect(try await self.people(store).indexStatus().allSatisfy { !$0.isReady })
  }

  @Test func batchIsRefusedAsAWholeWhenTwoOfItsModelsHaveAUniqueValue() async throws {
    let people = try people(Store.inMemory())
    await #expect(throws: StoreError.self) {
      try await people.save(contentsOf: [person(1, "a"), person(2, "a")])
    }
    #expect(try await people.count() == 0)
    // Nil is not a value.
    try await people.save(contentsOf: [person(1, nil), person(2, nil)])
    #expect(try await people.query(where: \.email, is: nil).count() == 2)
  }

  @Test func modelsOfOneBatchExchangeUniqueValues() async throws {
    let people = try people(Store.inMemory())
    try await people.save(contentsOf: [person(1, "a"), person(2, "b")])
    try await people.save(contentsOf: [person(1, "b"), person(2, "a")])
    #expect(try await people.find(\.email, "a")?.id == 2)
    #expect(try await people.find(\.email, "b")?.id == 1)
    try await people.keyspace.store.transaction { transaction in
      try await people.save(person(1, "a"), in: transaction)
      try await people.save(person(2, "b"), in: transaction)
    }
    #expect(try await people.find(\.email, "a")?.id == 1)
  }

  @Test func expiredModelDoesNotKeepItsUniqueValue() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let people = try people(Store.inMemory(configuration: configuration))
    try await people.save(person(1, "a"), expiring: .after(.seconds(5)))
    await #expect(throws: StoreError.self) { try await people.save(person(2, "a")) }
    clock.advance(by: .seconds(5))
    #expect(try await people.find(\.email, "a") == nil)
    #expect(try await people.query(where: \.age, is: 30).count() == 0)
    try await people.save(person(2, "a"))
    #expect(try await people.find(\.email, "a")?.id == 2)
  }

  @Test func addedIndexIsBuiltAndQueriesAreRightMeanwhile() async throws {
    let store = Store.inMemory()
    let plain = try people(store, [])
    for id in 0..<1_000 { try await plain.save(person(id, "\(id)", age: id % 10)) }
    let people = try people(store)
    #expect(try await people.query(where: \.age, is: 3).count() == 100)
    #expect(try await people.find(\.email, "77")?.id == 77)
    try await people.buildIndexes()
    #expect(try await people.indexStatus().allSatisfy(\.isReady))
    let plan = try await people.query(where: \.age, is: 3).explain()
    #expect(plan.index == "age")
    #expect(plan.candidateCount == 100)
    #expect(!plan.isFiltering)
    #expect(try await people.query(where: \.age, is: 3).requiringIndex().count() == 100)
  }

  @Test func uniqueIndexOverDuplicatesIsNotReadyAndSaysWhy() async throws {
    let store = Store.inMemory()
    let plain = try people(store, [])
    try await plain.save(contentsOf: [person(1, "a"), person(2, "a"), person(3, "c")])
    let people = try people(store)
    let error = await #expect(throws: StoreError.self) { try await people.buildIndexes() }
    #expect(error?.code == .notUnique)
    #expect(try await people.query(where: \.email, is: "a").fetch().count == 2)
    // After one of them has changed, the index can be built.
    try await plain.save(person(2, "b"))
    try await people.buildIndexes()
    #expect(try await people.find(\.email, "a")?.id == 1)
    #expect(try await people.query(where: \.email, is: "a").explain().index == "email")
  }

  @Test func modelThatCannotBeInOneIndexKeepsTheOthersComplete() async throws {
    let store = Store.inMemory()
    let plain = try people(store, [])
    try await plain.save(contentsOf: (0..<10).map { person($0, "\($0 / 2)", age: $0) })
    let people = try people(store)
    let error = await #expect(throws: StoreError.self) { try await people.buildIndexes() }
    #expect(error?.code == .notUnique)
    let status = try await people.indexStatus()
    #expect(status.filter { !$0.isReady }.map(\.name) == ["email"])
    #expect(status.first { $0.name == "age" }?.entryCount == 10)
    let plan = try await people.query(where: \.age, in: 3...5).explain()
    #expect(plan.index == "age")
    #expect(plan.pendingCount == 0)
    #expect(try await store.verify().problems.isEmpty)
  }

  @Test(arguments: [KeyOrder.ascending, .descending])
  func modelsWithoutEntriesStandInTheOrderOfTheIndex(order: KeyOrder) async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<40).map { person($0, "\(10 + $0)") })
    try await people.buildIndexes()
    // Two models that an older program has saved have emails that others have.
    let old = try self.people(store, [])
    try await old.save(contentsOf: [
      person(50, "20"), person(51, "20"), person(52, "33"), person(60, "99"), person(61, "00"),
    ])
    _ = await #expect(throws: StoreError.self) { try await people.buildIndexes() }
    let query = people.query(where: \.email, in: "00"...).sorted(by: \.email, order)
    let plan = try await query.explain()
    #expect(plan.index == "email")
    #expect(plan.pendingCount == 3)
    #expect(!plan.isSortingInMemory)
    let found = try await query.fetch()
    #expect(Set(found.map(\.id)) == Set(0..<40).union([50, 51, 52, 60, 61]))
    let emails = found.map { $0.email! }
    #expect(emails == (order == .ascending ? emails.sorted() : emails.sorted().reversed()))
    for limit in 1...7 {
      var (paged, token): ([Person], QueryToken?) = ([], nil)
      repeat {
        let page = try await query.limit(limit).page(after: token)
        paged += page.models
        token = page.next
      } while token != nil
      #expect(paged == found, "pages of \(limit)")
    }
  }

  /// An update of the bytes of an indexed model marks the model, as other writes of bytes do.
  @Test func updateOfBytesKeepsIndexesRight() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<20).map { person($0, "\($0)", age: 1) })
    try await people.buildIndexes()
    let bytes = try JSONEncoder().encode(person(3, "3", age: 99))
    try await people.keyspace.update("3") { _ in Array(bytes) }
    try await people.keyspace.update("4") { _ in nil }
    #expect(try await people.query(where: \.age, is: 99).fetch().map(\.id) == [3])
    let others = try await people.query(where: \.age, is: 1).fetch().map(\.id)
    #expect(Set(others) == Set(0..<20).subtracting([3, 4]))
    #expect(try await people.find(\.email, "4") == nil)
    let report = try await store.verify()
    #expect(report.isSound)
  }

  @Test func programWithoutTheIndexLeavesMarksThatTheNextOneFollows() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<20).map { person($0, "\($0)") })
    try await people.buildIndexes()
    let old = try self.people(store, [])
    try await old.save(person(3, "new", age: 99))
    try await old.delete(4)
    try await old.save(person(50, "fifty", age: 99))
    #expect(Set(try await people.query(where: \.age, is: 99).fetch().map(\.id)) == [3, 50])
    #expect(try await people.find(\.email, "3") == nil)
    #expect(try await people.find(\.email, "4") == nil)
    try await people.buildIndexes()
    let plan = try await people.query(where: \.age, is: 99).explain()
    #expect(plan.pendingCount == 0)
    #expect(plan.candidateCount == 2)
  }

  @Test func laterVersionOfTheModelsBuildsTheIndexAgain() async throws {
    let store = Store.inMemory()
    let first = try people(store)
    try await first.save(person(1, "A@example.org"))
    try await first.buildIndexes()
    let format = ModelFormat<Person>.json(version: 2).migrating(from: 1, Person.self) {
      var person = $0
      person.email = person.email?.lowercased()
      return person
    }
    let second = try people(store, format: format)
    #expect(try await second.find(\.email, "a@example.org")?.id == 1)
    try await second.buildIndexes()
    let query = second.query(where: \.email, is: "a@example.org")
    #expect(try await query.explain().index == "email")
    #expect(try await query.fetch().map(\.id) == [1])
    // The older program does not take the index back.
    #expect(try await first.indexStatus().first { $0.name == "email" }?.isReady == false)
    _ = try await people(store).query(where: \.age, is: 30).count()
    #expect(try await second.indexStatus().allSatisfy(\.isReady))
  }

  @Test func removedIndexLeavesNoEntries() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<600).map { person($0, "\($0)") })
    try await people.buildIndexes()
    let fewer = try self.people(store, Array(Person.indexes[..<1]))
    for name in ["age", "city, age", "tags", "active"] { try await fewer.removeIndex(named: name) }
    try await fewer.buildIndexes()
    let system = try store.orderedKeyspace(named: "moraine.index/people")
    // The list, a row for each model, and an entry for each email.
    #expect(try await system.count() == 1 + 600 + 600)
  }

  @Test func indexThatIsAddedAgainIsComplete() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<300).map { person($0, "\($0)", age: $0 % 3) })
    try await people.buildIndexes()
    let fewer = try self.people(store, Array(Person.indexes[..<1]))
    try await fewer.removeIndex(named: "age")
    try await fewer.buildIndexes()
    let again = try self.people(store)
    // A save that changes no value writes no entry that the row has.
    try await again.save(person(5, "5", age: 2))
    try await again.buildIndexes()
    let query = again.query(where: \.age, is: 2)
    #expect(try await query.explain().index == "age")
    #expect(try await query.count() == 100)
    #expect(try await store.verify().problems.isEmpty)
  }

  /// Something that `verify()` finds in the indexes of the tests.
  enum Defect: CaseIterable {
    case lostEntry, entryWithoutARow, rowWithoutAModel, damagedRow, recordThatIsNoEntry

    func make(in system: Keyspace) async throws {
      switch self {
      case .lostEntry:
        let first = try await system.keys(in: IndexLayout.allEntries, limit: 1)
        for key in first { try await system.removeValue(forKey: key) }
      case .entryWithoutARow:
        let list = try await system.value(forKey: IndexLayout.catalogKey)
        let number = try #require(try IndexCatalog(list, of: "people").ready.last)
        let entry = SecondaryIndexEntry(index: number, value: [9], key: "lost", isUnique: false)
        try await system.set(entry.recordValue, forKey: entry.recordKey)
      case .rowWithoutAModel:
        let row = StoredIndexRow(IndexRow([]), expiry: 0)
        try await system.set(row.bytes, forKey: IndexLayout.rowKey(of: "lost"))
      case .damagedRow: try await system.set([1, 2], forKey: IndexLayout.rowKey(of: "2"))
      case .recordThatIsNoEntry: try await system.set([], forKey: Key([3, 1]))
      }
    }
  }

  /// The test does what `moraine doctor` advises, and nothing else.
  @Test(arguments: Defect.allCases)
  func indexesThatAreRemovedAndAddedAgainFitTheirModels(defect: Defect) async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: (0..<300).map { person($0, "\($0)", age: $0 % 3) })
    let system = try store.orderedKeyspace(named: "moraine.index/people")
    try await defect.make(in: system)
    #expect(try await !store.verify().problems.isEmpty)
    let plain = try self.people(store, [])
    for index in Person.indexes { try await plain.removeIndex(named: index.name) }
    try await plain.buildIndexes()
    // The list of the indexes is left.
    #expect(try await system.count() == 1)
    let again = try self.people(store)
    try await again.buildIndexes()
    #expect(try await again.indexStatus().allSatisfy(\.isReady))
    #expect(try await again.query(where: \.age, is: 2).requiringIndex().count() == 100)
    try await again.save(person(2, "two", age: 2))
    #expect(try await again.find(\.email, "two")?.id == 2)
    #expect(try await store.verify().problems.isEmpty)
  }

  @Test func indexThatIsRemovedDuringItsBuildKeepsNoEntryWithoutARow() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(person(1, "a", age: 7))
    try await people.buildIndexes()
    let indexes = try #require(people.indexes)
    let row = try indexes.row(of: person(1, "a", age: 7))
    let entry = try #require(try await people.keyspace.versionedValue(forKey: "1"))
    for state in [IndexCatalog.State.dropped, .building] {
      try await indexes.changeCatalog { (catalog) throws(StoreError) in
        for position in catalog.indexes.indices where catalog.indexes[position].name == "age" {
          catalog.indexes[position].state = state
        }
      }
      guard state == .dropped else { break }
      // A builder sets the row of a model that it has read before.
      let keyspace = people.keyspace
      try await store.writeTyped { (batch) throws(StoreError) in
        _ = try batch.setRow(row, ofKey: "1", in: keyspace, if: entry.sequence)
      }
    }
    #expect(try await store.verify().problems.isEmpty)
    let age = try #require(zip(indexes.definitions, indexes.numbers).first { $0.0.name == "age" })
    let entries = KeyRange.prefix(Key(IndexLayout.prefix(of: age.1)))
    #expect(try await indexes.keyspace.keys(in: entries, limit: 10).isEmpty)
  }

  @Test func namedIndexOfManyValuesLeavesModelsWithoutValuesOut() async throws {
    let store = Store.inMemory()
    let plain = try people(store, [])
    var tagged = person(1, nil)
    tagged.tags = ["b", "a"]
    try await plain.save(contentsOf: [tagged, person(2, nil)])
    let people = try people(store)
    #expect(try await people.query().using("tags").fetch().map(\.id) == [1])
    try await people.buildIndexes()
    #expect(try await people.query().using("tags").fetch().map(\.id) == [1])
    #expect(try await people.query().using("tags").limit(.max).page().models.count == 1)
  }

  @Test func indexThatIsAddedAgainDuringItsBuildIsNotReadyTooEarly() throws {
    var catalog = IndexCatalog([
      .init(number: 1, name: "age", modelVersion: 1, state: .building, addition: 7)
    ])
    let built = catalog.indexes
    catalog.indexes[0].addition = 8
    catalog.markReady(built)
    #expect(catalog.indexes[0].state == .building)
    catalog.markReady(catalog.indexes)
    #expect(catalog.indexes[0].state == .ready)
    #expect(try IndexCatalog(catalog.bytes, of: "people") == catalog)
  }

  /// A value of any number of parts: the bytes of one value begin with those of another one.
  private struct Path: IndexValue, Codable, Equatable {
    var parts: [Int]

    func encode(into encoder: inout IndexEncoder) { for part in parts { encoder.append(part) } }
  }

  private struct File: Codable, Identifiable, Equatable {
    var id: Int
    var path: Path
    var other: Path
  }

  @Test func valuesThatBeginWithOneAnotherAreToldApart() async throws {
    let files = try LocalRepository<File>(
      in: Store.inMemory(), named: "files",
      indexes: [.index("path", on: \.path), .unique("both", on: \.path, \.other)])
    let paths = [[], [1], [1, 2], [1, 2, 3], [2]]
    try await files.save(
      contentsOf: paths.enumerated().map {
        File(id: $0, path: Path(parts: $1), other: Path(parts: [2, 3]))
      })
    // The parts of both properties together are the same.
    try await files.save(File(id: 9, path: Path(parts: [1]), other: Path(parts: [2, 2, 3])))
    try await files.buildIndexes()
    #expect(try await files.query(where: \.path, is: Path(parts: [1])).fetch().map(\.id) == [1, 9])
    #expect(try await files.query(where: \.path, is: Path(parts: [])).count() == 1)
    #expect(try await files.query(where: \.path, is: Path(parts: [1, 2])).count() == 1)
    #expect(try await files.query().sorted(by: \.path).fetch().map(\.id) == [0, 1, 9, 2, 3, 4])
  }

  @Test func undeclaredIndexCostsTheQueriesOfOthersNothing() async throws {
    let store = Store.inMemory()
    try await people(store).buildIndexes()
    let fewer = try people(store, Array(Person.indexes[1...1]))
    try await fewer.save(contentsOf: (0..<50).map { person($0, nil, age: $0 % 5) })
    let before = try await store.snapshot().sequence
    for _ in 0..<20 {
      let plan = try await fewer.query(where: \.age, is: 3).explain()
      #expect(plan.pendingCount == 0)
      #expect(plan.index == "age")
    }
    try await fewer.buildIndexes()
    #expect(try await store.snapshot().sequence == before)
    let all = try people(store)
    try await all.buildIndexes()
    #expect(try await all.query(where: \.city, is: "Bern").explain().pendingCount == 0)
    #expect(try await all.query(where: \.city, is: "Bern").count() == 50)
  }

  @Test func errorThatIsCaughtInABatchLeavesItUnchanged() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(contentsOf: [person(1, "a"), person(2, "b")])
    let long = Key(String(repeating: "k", count: 201))
    let keyspace = people.keyspace
    try await store.write { batch in
      let before = batch.count
      do { try batch.set([1], forKey: long, in: keyspace) } catch {}
      #expect(batch.count == before)
    }
    #expect(try await people.query(where: \.age, is: 30).count() == 2)
    #expect(try await store.verify().problems.isEmpty)
  }

  @Test func replacedModelOfABatchTakesNoUniqueValue() async throws {
    let people = try people(Store.inMemory())
    try await people.save(contentsOf: [person(1, "a"), person(2, "a"), person(1, "b")])
    #expect(try await people.find(\.email, "a")?.id == 2)
    #expect(try await people.find(\.email, "b")?.id == 1)
  }

  @Test func keyThatIsTooLongForAnIndexedKeyspaceIsRefused() async throws {
    let store = Store.inMemory()
    let people = try people(store)
    try await people.save(person(1, "a"))
    let long = Key(String(repeating: "k", count: 201))
    let error = await #expect(throws: StoreError.self) {
      try await people.keyspace.set([1], forKey: long)
    }
    #expect(error?.code == .keyTooLarge)
    let other = await #expect(throws: StoreError.self) {
      try await people.save(person(2, String(repeating: "e", count: 400)))
    }
    #expect(other?.code == .keyTooLarge)
  }

  @Test func textsThatDifferOnlyAfterTheirFirstBytesAreToldApart() async throws {
    let people = try people(Store.inMemory())
    let long = String(repeating: "x", count: 400)
    try await people.save(contentsOf: [
      person(1, nil, city: long + "a"), person(2, nil, city: long + "b"),
      person(3, nil, city: long),
      person(4, nil, city: "y"),
    ])
    try await people.buildIndexes()
    for (city, id) in [(long + "a", 1), (long + "b", 2), (long, 3)] {
      #expect(try await people.query(where: \.city, is: city).fetch().map(\.id) == [id])
      #expect(try await people.query(where: \.city, is: city).count() == 1)
    }
    #expect(try await people.query(where: \.city, in: ..<(long + "b")).count() == 2)
    #expect(try await people.query(where: \.city, in: (long + "b")...).count() == 2)
  }
}
