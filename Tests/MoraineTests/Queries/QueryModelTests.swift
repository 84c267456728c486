import Foundation
import Moraine
import MoraineTesting
import Testing

/// A query returns what a filter over all models returns, after any history.
@Suite(.timeLimit(.minutes(10))) struct QueryModelTests {
  /// The programs that use the store: with all indexes, with some, and with none.
  static func repositories(
    _ store: Store
  ) throws -> [LocalRepository<Person>] {
    [
      try LocalRepository(in: store, named: "people", indexes: Person.indexes),
      try LocalRepository(in: store, named: "people", indexes: Array(Person.indexes[1...2])),
      try LocalRepository(in: store, named: "people"),
    ]
  }

  @Test(arguments: 0..<24 as Range<UInt64>)
  func queryEqualsAFilterOfAllModels(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    configuration.expiryGrace = .milliseconds(500)
    configuration.segmentSizeBytes = 1 << 16
    let store = Store.inMemory(configuration: configuration)
    var programs = try Self.repositories(store)
    for round in 0..<40 {
      for _ in 0..<12 {
        // The program with all indexes writes most.
        let program = programs[random.next() % 3 == 0 ? Int(random.next() % 3) : 0]
        try await Self.write(program, clock, &random)
      }
      if random.next() % 8 == 0 { programs = try Self.repositories(store) }
      if random.next() % 8 == 0 { try await store.compact() }
      if random.next() % 8 == 0 { clock.advance(by: .milliseconds(random.next() % 2_000)) }
      if random.next() % 8 == 0 { try await store.removeExpired() }
      let problems = try await store.verify().problems
      #expect(problems.isEmpty, "seed \(seed), round \(round)")
      for (number, program) in programs.enumerated() {
        let found = try await difference(
          of: program, queries: 6, &random, hasAllIndexes: number == 0)
        #expect(found == nil, "seed \(seed), round \(round)")
        if found != nil { return }
      }
    }
    // The other programs may have saved the same email twice; the models are then corrected.
    while let error = await Self.failureToBuild(programs[0]) {
      let duplicate = try #require(error.duplicate, "seed \(seed): \(error)")
      try await programs[0].keyspace.removeValue(forKey: duplicate.key)
    }
    #expect(try await programs[0].indexStatus().allSatisfy(\.isReady), "seed \(seed)")
    let marks = try await programs[0].query().explain().pendingCount
    #expect(marks == 0, "seed \(seed)")
    let found = try await difference(of: programs[0], queries: 30, &random)
    #expect(found == nil, "seed \(seed), at the end")
    #expect(try await store.verify().problems.isEmpty, "seed \(seed)")
  }

  /// Regression: a query of all models threw where they were more than may be sorted.
  @Test func queryWithoutAnOrderReturnsAllModelsWithoutABound() async throws {
    let people = try LocalRepository<Person>(in: Store.inMemory(), named: "people")
    try await people.save(
      contentsOf: (1...3).map { Person(id: $0, age: 9 - $0, city: "Bern") })
    let query = people.query().sortingInMemory(atMost: 2)
    #expect(try await query.fetch().map(\.id) == [1, 2, 3])
    #expect(try await query.where(\.city, is: "Bern").page().models.map(\.id) == [1, 2, 3])
    #expect(try await query.limit(3).fetch().map(\.id) == [1, 2, 3])
    #expect(try await query.limit(.max).page().models.map(\.id) == [1, 2, 3])
    var updates = query.updates.makeAsyncIterator()
    let first = try #require(await updates.next(isolation: nil))
    #expect(first.models.map(\.id) == [1, 2, 3])
    let byAge = query.sorted(by: \.age)
    let error = await #expect(throws: StoreError.self) { try await byAge.fetch() }
    #expect(error?.code == .limitExceeded)
    #expect(try await byAge.limit(2).fetch().map(\.id) == [3, 2])
    #expect(try await byAge.sortingInMemory(atMost: 3).fetch().map(\.id) == [3, 2, 1])
  }

  /// A page continues at its place whichever indexes are ready.
  @Test func fetchHasTheOrderOfTheIndexAndAPageThatOfTheIds() async throws {
    let people = try LocalRepository<Person>(
      in: Store.inMemory(), named: "people", indexes: Person.indexes)
    try await people.save(contentsOf: [
      Person(id: 1, age: 30, city: "Bern", tags: ["a"]),
      Person(id: 2, age: 20, city: "Bern", tags: ["c"]),
      Person(id: 3, age: 25, city: "Bern", tags: ["b"]),
    ])
    try await people.buildIndexes()
    let query = people.query(where: \.age, in: 20...30).limit(2)
    #expect(try await query.explain().index == "age")
    #expect(try await query.fetch().map(\.id) == [2, 3])
    #expect(try await query.first()?.id == 2)
    let page = try await query.page()
    #expect(page.models.map(\.id) == [1, 2])
    #expect(try await query.page(after: page.next).models.map(\.id) == [3])
    var updates = query.updates.makeAsyncIterator()
    let observed = try #require(await updates.next(isolation: nil)).models.map(\.id)
    #expect(observed == [1, 2])
    let tagged = people.query().where(any: \.tags, in: "a"..."c").limit(2)
    #expect(try await tagged.explain().index == "tags")
    #expect(try await tagged.fetch().map(\.id) == [1, 2])
  }

  static func failureToBuild(_ people: LocalRepository<Person>) async -> StoreError? {
    do throws(StoreError) {
      try await people.buildIndexes()
      return nil
    } catch {
      return error
    }
  }

  static func write(
    _ program: LocalRepository<Person>, _ clock: ManualClock, _ random: inout SeededGenerator
  ) async throws {
    let id = Int(random.next() % 40)
    let person = Person.random(id, &random)
    do {
      switch random.next() % 10 {
      case 0: try await program.delete(id)
      case 1:
        try await program.save(
          person, expiring: .after(.milliseconds(random.next() % 3_000)))
      case 2:
        let second = Person.random(Int(random.next() % 40), &random)
        try await program.save(contentsOf: [person, second])
      case 3:
        let other = Person.random(Int(random.next() % 40), &random)
        try await program.keyspace.store.transaction { transaction in
          _ = try await program.find(by: other.id, in: transaction)
          try await program.save(other, in: transaction)
          try await program.delete(id, in: transaction)
        }
      case 4:
        // A program that knows nothing of models.
        if random.next() % 2 == 0 {
          try await program.keyspace.removeValue(forKey: Key("\(id)"))
        } else {
          let bytes = [UInt8](try JSONEncoder().encode(person))
          try await program.keyspace.set(bytes, forKey: Key("\(id)"))
        }
      case 5:
        let deletes = random.next() % 4 == 0
        try await program.update(id) { old in
          if deletes { return nil }
          var new = old ?? person
          new.email = person.email
          new.age += 1
          return new
        }
      case 6:
        if random.next() % 12 == 0 {
          try await program.deleteAll()
          break
        }
        let other = Person.random(Int(random.next() % 40), &random)
        let third = Int(random.next() % 40)
        let lifetime = Duration.milliseconds(random.next() % 3_000)
        try await program.write { batch in
          // The two persons exchange their emails.
          let known = try batch.find(by: id)
          var (first, second) = (known ?? person, other)
          (first.email, second.email) = (second.email, first.email)
          batch.delete(third)
          try batch.save(first, expiring: .unchanged)
          try batch.save(second, expiring: .after(lifetime))
        }
      default: try await program.save(person)
      }
    } catch let error as StoreError {
      guard error.code == .notUnique else { throw error }
      #expect(error.duplicate != nil)
    }
  }
}
