import Moraine
import MoraineTesting
import Synchronization
import Testing

/// Deletes of models that have ended. Such a model comes back when the clock was ahead.
@Suite(.timeLimit(.minutes(10))) struct EndedModelTests {
  private static let start: UInt64 = 1_700_000_000_000
  /// The time at which the first person ends.
  private static let end = start + 3_600_000

  /// A clock that goes on by a millisecond whenever it is asked, while it ticks.
  private final class TickingClock: StoreClock {
    let base = ManualClock(startingAt: EndedModelTests.start)
    let isTicking = Atomic<Bool>(false)

    var milliseconds: UInt64 {
      if isTicking.load(ordering: .relaxed) { base.advance(by: .milliseconds(1)) }
      return base.milliseconds
    }

    var steadyMilliseconds: UInt64 { base.steadyMilliseconds }

    func sleep(until milliseconds: UInt64) async throws {
      try await base.sleep(until: milliseconds)
    }
  }

  private let clock = TickingClock()

  private func open(_ disk: SimulatedDisk) throws -> LocalRepository<Person> {
    var configuration = Store.Configuration()
    configuration.clock = clock
    return try LocalRepository<Person>(
      in: try disk.openStore(configuration: configuration), named: "people",
      indexes: [.unique("email", on: \.email), .index("age", on: \.age)])
  }

  private func person(_ id: Int, _ email: String) -> Person {
    Person(id: id, email: email, age: 7, city: "Bern")
  }

  /// Saves a person that ends, moves the clock, and then saves another person and deletes the first
  /// one together.
  ///
  /// - Returns: the persons, opened again with a clock that is right.
  private func people(
    afterDeletingAt time: UInt64, saving email: String, inTransaction: Bool
  ) async throws -> LocalRepository<Person> {
    clock.base.set(toMilliseconds: Self.start)
    let disk = SimulatedDisk()
    let people = try open(disk)
    try await people.save(person(1, "ada"), expiring: .at(milliseconds: Self.end))
    let other = person(2, email)
    clock.base.set(toMilliseconds: time)
    if inTransaction {
      try await people.keyspace.store.transaction { transaction in
        try await people.save(other, in: transaction)
        try await people.delete(1, in: transaction)
      }
    } else {
      try await people.write { batch in
        try batch.save(other)
        batch.delete(1)
      }
    }
    clock.isTicking.store(false, ordering: .relaxed)
    try await people.close()
    clock.base.set(toMilliseconds: Self.start)
    return try open(disk)
  }

  /// Regression: the delete had no effect, but the model lost its entries.
  @Test(arguments: [false, true])
  func deleteOfAModelThatHasEndedKeepsItsEntries(inTransaction: Bool) async throws {
    let people = try await people(
      afterDeletingAt: Self.end + 1_800_000, saving: "bob", inTransaction: inTransaction)
    #expect(try await people.loadAll().map(\.id).sorted() == [1, 2])
    let query = people.query(where: \.age, is: 7)
    #expect(try await query.explain().index == "age")
    #expect(try await query.fetch().map(\.id).sorted() == [1, 2])
    let error = await #expect(throws: StoreError.self) {
      try await people.save(person(3, "ada"))
    }
    #expect(error?.code == .notUnique)
    #expect(try await people.keyspace.store.verify().problems.isEmpty)
    try await people.close()
  }

  /// The model is gone then, also when the clock is corrected: two models cannot have the value.
  @Test(arguments: [false, true])
  func modelTakesTheValueOfAModelThatHasEnded(inTransaction: Bool) async throws {
    let people = try await people(
      afterDeletingAt: Self.end + 1_800_000, saving: "ada", inTransaction: inTransaction)
    #expect(try await people.loadAll().map(\.id) == [2])
    #expect(try await people.find(\.email, "ada")?.id == 2)
    #expect(try await people.keyspace.store.verify().problems.isEmpty)
    try await people.close()
  }

  /// The clock passes the end of the model at each moment of the deletion.
  @Test(arguments: [false, true])
  func modelThatEndsDuringItsDeletionIsWholeOrGone(inTransaction: Bool) async throws {
    var outcomes: Set<[Int]> = []
    for lead in 1...80 as ClosedRange<UInt64> {
      clock.isTicking.store(true, ordering: .relaxed)
      let people = try await people(
        afterDeletingAt: Self.end - lead, saving: "bob", inTransaction: inTransaction)
      let ids = try await people.loadAll().map(\.id).sorted()
      outcomes.insert(ids)
      let found = try await people.query(where: \.age, is: 7).fetch().map(\.id).sorted()
      #expect(found == ids, "\(lead) ms before the end")
      #expect(try await people.keyspace.store.verify().problems.isEmpty, "\(lead) ms")
      try await people.close()
    }
    #expect(outcomes == [[1, 2], [2]], "the model ended too early or too late")
  }

  /// Regression: the check of a unique value read the clock once for the record and once for its
  /// entry. Where the record ended in between, it stayed, and another model got its entry.
  @Test func modelThatEndsDuringACheckOfItsValueHasTheValueOrIsGone() async throws {
    var outcomes: Set<[Int]> = []
    for lead in 1...80 as ClosedRange<UInt64> {
      clock.base.set(toMilliseconds: Self.start)
      let disk = SimulatedDisk()
      let first = try open(disk)
      try await first.save(person(1, "ada"), expiring: .at(milliseconds: Self.end))
      clock.base.set(toMilliseconds: Self.end - lead)
      clock.isTicking.store(true, ordering: .relaxed)
      do throws(StoreError) { try await first.save(person(2, "ada")) } catch {
        #expect(error.code == .notUnique)
      }
      clock.isTicking.store(false, ordering: .relaxed)
      try await first.close()
      clock.base.set(toMilliseconds: Self.start)
      let people = try open(disk)
      let ids = try await people.loadAll().map(\.id).sorted()
      outcomes.insert(ids)
      #expect(try await people.find(\.email, "ada")?.id == ids.first, "\(lead) ms")
      #expect(try await people.keyspace.store.verify().problems.isEmpty, "\(lead) ms")
      try await people.close()
    }
    #expect(outcomes == [[1], [2]], "both models have the value, or the first one never ended")
  }
}
