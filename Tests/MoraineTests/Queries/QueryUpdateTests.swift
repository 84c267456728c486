import Foundation
import Moraine
import MoraineTesting
import Synchronization
import Testing

/// An observed query equals the query after each change.
///
/// `MORAINE_QUERY_CHANGES=N` makes N changes of each query.
@Suite(.timeLimit(.minutes(60))) struct QueryUpdateTests {
  private static var changeCount: Int {
    ProcessInfo.processInfo.environment["MORAINE_QUERY_CHANGES"].flatMap { Int($0) } ?? 300
  }

  /// Applies steps to an array: what a view does.
  private static func apply(
    _ update: QueryUpdate<Person>, to list: inout [Person]
  ) throws {
    if update.isReload {
      list = Array(update.models)
      return
    }
    // The values at the offsets are taken from the new state, so only the places are compared.
    for step in update.steps {
      switch step {
      case .insert(let offset):
        list.insert(Person(id: -1, age: 0, city: ""), at: offset)
      case .remove(let offset): list.remove(at: offset)
      case .update(let offset): list[offset] = Person(id: -1, age: 0, city: "")
      case .move(let from, let to):
        list.remove(at: from)
        list.insert(Person(id: -1, age: 0, city: ""), at: to)
      }
    }
    try #require(list.count == update.models.count)
    // A model that no step has touched is the same, at the same place.
    for (old, new) in zip(list, update.models) where old.id >= 0 { try #require(old == new) }
    list = Array(update.models)
  }

  /// A clock that a time server sets back when a sleeper has woken, once.
  private final class SteppingClock: StoreClock {
    let base = ManualClock(startingAt: 1_000_000)
    private let waits = Mutex<[UInt64: Int]>([:])

    var milliseconds: UInt64 { base.milliseconds }
    var steadyMilliseconds: UInt64 { base.steadyMilliseconds }

    func waitCount(until time: UInt64) -> Int { waits.withLock { $0[time] ?? 0 } }

    func sleep(until milliseconds: UInt64) async throws {
      let count = waits.withLock { waits in
        waits[milliseconds, default: 0] += 1
        return waits[milliseconds]!
      }
      try await base.sleep(until: milliseconds)
      if milliseconds == 1_005_000, count == 1 { base.set(toMilliseconds: 1_000_000) }
    }
  }

  private final class End: Sendable { let isReached = Atomic<Bool>(false) }

  @Test func observedQueryContinuesWhenTheClockIsSetBack() async throws {
    let clock = SteppingClock()
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let people = try LocalRepository<Person>(in: store, named: "people")
    try await people.save(Person(id: 1, age: 3, city: "Bern"), expiring: .after(.seconds(5)))
    let query = people.query(where: \.age, is: 3)
    let end = End()
    let states = Task {
      defer { end.isReached.store(true, ordering: .relaxed) }
      var counts: [Int] = []
      for try await update in query.updates {
        counts.append(update.models.count)
        if update.models.isEmpty { break }
      }
      return counts
    }
    for round in 1...2 {
      while clock.waitCount(until: 1_005_000) < round, !end.isReached.load(ordering: .relaxed) {
        await Task.yield()
      }
      clock.base.advance(toMilliseconds: 1_005_000)
    }
    #expect(try await states.value == [1, 0])
  }

  /// Other reads do not return the model either.
  @Test func modelThatHasEndedLeavesTheResultWhenTheClockIsSetBack() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let people = try LocalRepository<Person>(in: store, named: "people")
    try await people.save(Person(id: 1, age: 3, city: "Bern"), expiring: .after(.seconds(5)))
    try await people.save(Person(id: 2, age: 3, city: "Bern"))
    let query = people.query(where: \.age, is: 3)
    var iterator = query.updates.makeAsyncIterator()
    var ids = try #require(await iterator.next(isolation: nil)).models.map(\.id)
    #expect(ids == [1, 2])
    clock.set(toMilliseconds: 1_006_000)
    #expect(try await query.fetch().map(\.id) == [2])
    clock.set(toMilliseconds: 1_000_000)
    #expect(try await query.fetch().map(\.id) == [2])
    // This change is there to be waited for.
    try await people.save(Person(id: 3, age: 3, city: "Bern"))
    while !ids.contains(3) {
      ids = try #require(await iterator.next(isolation: nil)).models.map(\.id)
    }
    #expect(ids == [2, 3])
    try await store.close()
  }

  /// Regression: a model that was saved again before its end left the result at its earlier end,
  /// and came back with the next change.
  @Test func modelThatWasRenewedStaysInTheResult() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let people = try LocalRepository<Person>(in: store, named: "people")
    try await people.save(Person(id: 1, age: 3, city: "Bern"), expiring: .after(.seconds(10)))
    let query = people.query(where: \.age, is: 3)
    var iterator = query.updates.makeAsyncIterator()
    var ids = try #require(await iterator.next(isolation: nil)).models.map(\.id)
    #expect(ids == [1])
    clock.advance(by: .seconds(9))
    try await people.save(Person(id: 1, age: 3, city: "Bern"), expiring: .after(.seconds(10)))
    clock.advance(by: .seconds(2))
    // This change is there to be waited for.
    try await people.save(Person(id: 2, age: 3, city: "Bern"))
    while !ids.contains(2) {
      ids = try #require(await iterator.next(isolation: nil)).models.map(\.id)
      #expect(ids.contains(1))
    }
    // Its new end counts.
    clock.advance(by: .seconds(8))
    while ids.contains(1) {
      ids = try #require(await iterator.next(isolation: nil)).models.map(\.id)
    }
    #expect(ids == [2])
    try await store.close()
  }

  /// Regression: these ask for some models more than the limit, which must not count.
  @Test func limitThatIsSortedInMemoryAllowsUpdatesAndPages() async throws {
    let people = try LocalRepository<Person>(in: Store.inMemory(), named: "people")
    try await people.save(
      contentsOf: (0..<200).map { Person(id: $0, age: $0 * 7 % 50, city: "Bern") })
    let query = people.query().sorted(by: \.age).sortingInMemory(atMost: 100)
    let few = query.limit(50)
    var updates = few.updates.makeAsyncIterator()
    let observed = try #require(await updates.next(isolation: nil)).models
    let fetched = try await few.fetch()
    #expect(fetched.count == 50)
    #expect(Array(observed) == fetched)
    let page = try await query.limit(100).page()
    let all = try await query.limit(100).fetch()
    #expect(page.models == all)
    #expect(page.next != nil)
    let error = await #expect(throws: StoreError.self) { try await query.limit(101).fetch() }
    #expect(error?.code == .limitExceeded)
  }

  @Test(arguments: 0..<16 as Range<UInt64>)
  func observedQueryEqualsTheQueryAfterEachChange(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let people = try LocalRepository<Person>(
      in: store, named: "people", indexes: Array(Person.indexes[1...]))
    let others = try LocalRepository<Person>(in: store, named: "people")
    for id in 0..<30 { try await people.save(Person.random(id, &random)) }
    var compared = ComparedQuery.random(&random, hasAllIndexes: true)
    while compared.precedes == nil {
      compared = ComparedQuery.random(&random, hasAllIndexes: true)
    }
    var query = compared.query(people)
    // A limit that is near the number of models is reached and left again and again.
    let count = compared.expected(try await people.loadAll()).count
    let limit = [Int(seed) / 2 + 1, Int.max, max(count, 1), count + 1][Int(seed % 4)]
    if limit != .max { query = query.limit(limit) }
    var iterator = query.updates.makeAsyncIterator()
    var list: [Person] = []
    try Self.apply(try #require(await iterator.next(isolation: nil)), to: &list)
    var expected = Array(compared.expected(try await people.loadAll()).prefix(limit))
    #expect(list == expected)
    for round in 0..<Self.changeCount {
      let id = Int(random.next() % 60)
      switch random.next() % 5 {
      case 0: try await people.delete(id)
      case 1:
        try await people.save(
          Person.random(id, &random), expiring: .after(.milliseconds(1 + random.next() % 50)))
      case 2: clock.advance(by: .milliseconds(random.next() % 30))
      case 3: try await others.save(Person.random(id, &random))
      default: try await people.save(Person.random(id, &random))
      }
      let before = expected
      expected = Array(compared.expected(try await people.loadAll()).prefix(limit))
      // Without a difference, there is nothing to wait for.
      if expected == before { continue }
      while list != expected {
        let update = try #require(await iterator.next(isolation: nil))
        try Self.apply(update, to: &list)
      }
      #expect(list == expected, "seed \(seed), round \(round)")
    }
    try await store.close()
  }
}
