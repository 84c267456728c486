import Foundation
import Moraine
import MoraineTesting
import Testing

private struct Counter: Codable, Identifiable, Hashable, Sendable {
  var id: Int
  var count = 0
}

private struct Refused: Error {}

/// Updates and batches of a repository.
@Suite(.timeLimit(.minutes(10))) struct RepositoryUpdateTests {
  private func counters(
    _ store: Store, _ cache: CachePolicy = .bounded(bytes: 8 << 20)
  ) throws -> LocalRepository<Counter> {
    try LocalRepository(in: store, named: "counters", cache: cache)
  }

  @Test func updateReceivesTheModelAndSavesTheNewOne() async throws {
    let counters = try counters(Store.inMemory())
    #expect(try await counters.update(1) { $0 ?? Counter(id: 1, count: 5) }?.count == 5)
    for _ in 0..<3 {
      try await counters.update(1) { old in
        var counter = try #require(old)
        counter.count += 1
        return counter
      }
    }
    #expect(try await counters.find(by: 1) == Counter(id: 1, count: 8))
    #expect(try await counters.update(1) { _ in nil } == nil)
    #expect(try await counters.find(by: 1) == nil)
    #expect(try await counters.count() == 0)
  }

  @Test func updatesOfSeveralTasksAreNotLost() async throws {
    let store = Store.inMemory()
    let repositories = [try counters(store), try counters(store), try counters(store, .none)]
    await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<6 {
        group.addTask {
          for _ in 0..<100 {
            try await repositories[task % 3].update(1) {
              Counter(id: 1, count: ($0?.count ?? 0) + 1)
            }
          }
        }
      }
    }
    for repository in repositories {
      #expect(try await repository.find(by: 1)?.count == 600)
    }
  }

  /// Two processes share a store. Each one finds, changes and saves the same model 300 times.
  @Test func updatesOfTwoProcessesAreNotLost() async throws {
    let folder = try Folder()
    let path = folder.url.path
    async let first: Void = Self.addInAnotherProcess(0, path)
    async let second: Void = Self.addInAnotherProcess(1, path)
    _ = await (first, second)
    let counters = try LocalRepository<Counter>(directory: folder.url, sharing: .shared)
    let count = try await counters.find(by: 7)?.count
    #expect(count == 600, "\(600 - (count ?? 0)) of 600 updates are lost")
    // Each process has seen a value that the other one had written between two of its own.
    #expect(try await counters.find(by: 8)?.count == 2, "the processes did not run side by side")
    try await counters.close()
  }

  private static func addInAnotherProcess(_ number: Int, _ path: String) async {
    await #expect(processExitsWith: .success) { [number, path] in
      let counters = try LocalRepository<Counter>(
        directory: URL(fileURLWithPath: path), sharing: .shared)
      let progress = try counters.keyspace.store.keyspace(named: "progress")
      var (last, hasMet) = (0, false)
      for round in 0..<300 {
        // The processes stay side by side: neither is ten updates ahead of the other.
        if round % 10 == 0 {
          try await progress.set([UInt8(round / 10)], forKey: Key("\(number)"))
          for try await value in progress.values(forKey: Key("\(1 - number)")) {
            if let other = value?.first, other >= UInt8(round / 10) { break }
          }
        }
        let new = try await counters.update(7) {
          Counter(id: 7, count: ($0?.count ?? 0) + 1)
        }
        guard let count = new?.count else { exit(2) }
        hasMet = hasMet || (last > 0 && count > last + 1)
        last = count
      }
      if hasMet { try await counters.update(8) { Counter(id: 8, count: ($0?.count ?? 0) + 1) } }
      try await counters.close()
      exit(0)
    }
  }

  @Test func updateThatThrowsWritesNothing() async throws {
    let store = Store.inMemory()
    let counters = try counters(store)
    try await counters.save(Counter(id: 1, count: 1))
    let before = try await store.lastSequence()
    await #expect(throws: Refused.self) { try await counters.update(1) { _ in throw Refused() } }
    let error = await #expect(throws: StoreError.self) {
      try await counters.update(1) { _ in Counter(id: 2) }
    }
    #expect(error?.code == .invalidArgument)
    await #expect(throws: Refused.self) {
      try await counters.write { batch in
        try batch.save(Counter(id: 1, count: 9))
        throw Refused()
      }
    }
    #expect(try await store.lastSequence() == before)
    #expect(try await counters.find(by: 1)?.count == 1)
  }

  @Test func updateThatChangesNothingWritesNothing() async throws {
    let store = Store.inMemory()
    // Names of members have one order then.
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let counters = try LocalRepository<Counter>(
      in: store, named: "counters", format: .json(encoder: encoder))
    try await counters.save(Counter(id: 1, count: 1))
    let before = try await store.lastSequence()
    #expect(try await counters.update(1) { $0 }?.count == 1)
    #expect(try await counters.update(2) { $0 } == nil)
    try await counters.write { _ in }
    #expect(try await store.lastSequence() == before)
  }

  /// A body that throws nothing, or `StoreError`, needs no untyped catch.
  @Test func updateThrowsTheErrorsOfTheStoreWithTheirType() async throws {
    let counters = try counters(Store.inMemory())
    try await counters.close()
    do throws(StoreError) {
      try await counters.update(1) { $0 }
      Issue.record("an update of a closed store succeeded")
    } catch {
      #expect(error.code == .closed)
    }
    do throws(StoreError) {
      try await counters.write { (batch) throws(StoreError) in try batch.save(Counter(id: 1)) }
      Issue.record("a batch of a closed store succeeded")
    } catch {
      #expect(error.code == .closed)
    }
  }

  @Test func updateKeepsTheExpiryOfTheModel() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let counters = try counters(Store.inMemory(configuration: configuration))
    for id in 1...4 { try await counters.save(Counter(id: id), expiring: .after(.seconds(10))) }
    try await counters.update(1) { $0.map { Counter(id: $0.id, count: 1) } }
    try await counters.update(2, expiring: .never) { $0.map { Counter(id: $0.id, count: 1) } }
    try await counters.write { batch in
      try batch.save(Counter(id: 3, count: 1), expiring: .unchanged)
      try batch.save(Counter(id: 3, count: 2), expiring: .unchanged)
      try batch.save(Counter(id: 4, count: 2))
    }
    for id in 1...3 { #expect(try await counters.find(by: id)?.count ?? 0 > 0) }
    clock.advance(by: .seconds(11))
    #expect(try await counters.find(by: 1) == nil)
    #expect(try await counters.find(by: 2)?.count == 1)
    #expect(try await counters.find(by: 3) == nil)
    #expect(try await counters.find(by: 4)?.count == 2)
  }

  @Test func modelThatEndsDuringItsUpdateEnds() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let counters = try counters(Store.inMemory(configuration: configuration))
    for id in 1...2 { try await counters.save(Counter(id: id), expiring: .after(.seconds(10))) }
    try await counters.update(1) { old in
      clock.advance(by: .seconds(11))
      return old.map { Counter(id: $0.id, count: 1) }
    }
    #expect(try await counters.find(by: 1) == nil)
    for reading in ["find", "contains", "nothing"] {
      try await counters.save(Counter(id: 2), expiring: .after(.seconds(10)))
      try await counters.write { batch in
        switch reading {
        case "find": #expect(try batch.find(by: 2) != nil)
        case "contains": #expect(try batch.contains(2))
        default: break
        }
        clock.advance(by: .seconds(11))
        try batch.save(Counter(id: 2, count: 1), expiring: .unchanged)
      }
      #expect(try await counters.find(by: 2) == nil, "\(reading)")
    }
  }

  @Test func modelThatWasNotFoundIsNew() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let counters = try counters(Store.inMemory(configuration: configuration))
    for reading in ["find", "contains"] {
      try await counters.save(Counter(id: 1), expiring: .after(.seconds(10)))
      try await counters.write { batch in
        clock.advance(by: .seconds(11))
        switch reading {
        case "find": #expect(try batch.find(by: 1) == nil)
        default: #expect(try !batch.contains(1))
        }
        try batch.save(Counter(id: 1, count: 1), expiring: .unchanged)
      }
      #expect(try await counters.find(by: 1)?.count == 1, "\(reading)")
    }
  }

  @Test func batchReadsItsOwnWritesAndAppliesTheLastOne() async throws {
    let store = Store.inMemory()
    let counters = try counters(store)
    try await counters.save(contentsOf: (1...3).map { Counter(id: $0) })
    let before = try await store.lastSequence().rawValue
    let found = try await counters.write { batch in
      try batch.save(Counter(id: 1, count: 1))
      try batch.save(Counter(id: 1, count: 2))
      batch.delete(2)
      try batch.save(Counter(id: 4))
      batch.delete(4)
      batch.delete(5)
      #expect(try batch.find(by: 2) == nil)
      #expect(try !batch.contains(2))
      #expect(try batch.contains(3))
      #expect(try !batch.contains(4))
      return try batch.find(by: 1)?.count
    }
    #expect(found == 2)
    #expect(try await store.lastSequence().rawValue == before + 2)
    #expect(try await counters.loadAll() == [Counter(id: 3), Counter(id: 1, count: 2)])
    // Also from memory.
    #expect(try await counters.find(by: 1)?.count == 2)
    #expect(try await counters.find(by: 2) == nil)
    #expect(try await counters.find(by: 4) == nil)
  }

  @Test func modelsOfAWriteExchangeUniqueValues() async throws {
    let store = Store.inMemory()
    let people = try LocalRepository<Person>(in: store, named: "people", indexes: Person.indexes)
    func person(_ id: Int, _ email: String) -> Person {
      Person(id: id, email: email, age: 3, city: "Oslo")
    }
    try await people.save(contentsOf: [person(1, "a"), person(2, "b")])
    try await people.write { batch in
      try batch.save(person(1, "b"))
      try batch.save(person(2, "a"))
    }
    #expect(try await people.query(where: \.email, is: "a").fetch().map(\.id) == [2])
    let error = await #expect(throws: StoreError.self) {
      try await people.update(2) { _ in person(2, "b") }
    }
    #expect(error?.code == .notUnique)
    #expect(try await people.find(by: 2) == person(2, "a"))
    try await people.update(2) { _ in person(2, "c") }
    #expect(try await people.query(where: \.email, is: "a").count() == 0)
    #expect(try await people.query(where: \.email, is: "c").count() == 1)
  }
}

/// Deleting all models, asking for one, and closing.
@Suite(.timeLimit(.minutes(10))) struct RepositoryWholeTests {
  @Test func deleteAllLeavesNoModelAndNoEntryOfAnIndex() async throws {
    let store = Store.inMemory()
    let people = try LocalRepository<Person>(in: store, named: "people", indexes: Person.indexes)
    let other = try LocalRepository<Person>(in: store, named: "others")
    let reader = try await people.reader()
    var random = SeededGenerator(seed: 1)
    for id in 0..<500 {
      var person = Person.random(id, &random)
      person.email = "\(id)"
      try await people.save(person)
    }
    try await other.save(Person(id: 1, age: 1, city: "Oslo"))
    #expect(try await people.find(by: 4) != nil)
    #expect(try reader.find(by: 4) != nil)
    // A model that no program can decode is deleted too.
    try await people.keyspace.set([1, 2, 3], forKey: "600")
    // In memory again: the other writer's commit has emptied the cache.
    #expect(try await people.find(by: 4) != nil)
    #expect(try await people.deleteAll() == 501)
    #expect(try await people.count() == 0)
    #expect(try await people.loadAll() == [])
    #expect(try await people.find(by: 4) == nil)
    #expect(try reader.find(by: 4) == nil)
    #expect(try await people.query(where: \.age, in: (-9)...).count() == 0)
    #expect(try await people.query().explain().pendingCount == 0)
    #expect(try await other.count() == 1)
    #expect(try await store.verify().problems.isEmpty)
    #expect(try await people.deleteAll() == 0)
    // The values of unique indexes are free.
    try await people.save(Person(id: 1_000, email: "7", age: 1, city: "Zug"))
    #expect(try await people.query(where: \.email, is: "7").count() == 1)
  }

  @Test func changesReportEachModelThatDeleteAllDeletes() async throws {
    let notes = try LocalRepository<Note>(in: Store.inMemory(), named: "notes")
    var changes = notes.changes.makeAsyncIterator()
    try await notes.save(contentsOf: (0..<3).map { Note(id: $0, text: "") })
    try await notes.deleteAll()
    var deleted: Set<Int> = []
    while deleted.count < 3, let change = try await changes.next(isolation: nil) {
      if case .deleted(let id) = change { deleted.insert(id) }
    }
    #expect(deleted == [0, 1, 2])
  }

  /// After a power failure at any call, all models exist, or none.
  @Test func deleteAllIsAtomic() async throws {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.durability = .sync
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: configuration)
    let notes = try LocalRepository<Note>(in: store, named: "notes")
    try await notes.save(contentsOf: (0..<300).map { Note(id: $0, text: "note \($0)") })
    let moments = DiskMoments(limit: 20, phase: 0)
    disk.setObserver { [unowned disk] in moments.take(disk) }
    try await notes.deleteAll()
    try await notes.close()
    disk.setObserver(nil)
    var counts: Set<Int> = []
    for (number, moment) in moments.all {
      for (policy, image) in moment.images(subsets: 4, torn: 4, seed: UInt64(number)) {
        let store = try SimulatedDisk(image).openStore(configuration: configuration)
        let notes = try LocalRepository<Note>(in: store, named: "notes")
        let count = try await notes.loadAll().count
        #expect([0, 300].contains(count), "call \(number), \(policy)")
        counts.insert(count)
        try await notes.close()
      }
    }
    #expect(counts == [0, 300], "the crashes came too early or too late")
  }

  @Test func containsKnowsAModelThatCannotBeDecoded() async throws {
    let notes = try LocalRepository<Note>(in: Store.inMemory(), named: "notes")
    try await notes.save(Note(id: 1, text: ""))
    try await notes.keyspace.set([1, 2, 3], forKey: "2")
    #expect(try await notes.contains(1))
    #expect(try await notes.contains(2))
    #expect(try await !notes.contains(3))
    await #expect(throws: StoreError.self) { try await notes.find(by: 2) }
    try await notes.delete(1)
    #expect(try await !notes.contains(1))
    try await notes.keyspace.removeValue(forKey: "2")
    #expect(try await !notes.contains(2))
  }

  @Test func closedRepositoryThrowsAndItsPlaceCanBeOpenedAgain() async throws {
    let folder = try Folder()
    let notes = try LocalRepository<Note>(directory: folder.url, filename: "notes")
    let reader = try await notes.reader()
    try await notes.save(Note(id: 1, text: "kept"))
    try await notes.close()
    try await notes.close()
    var codes: [StoreError.Code] = []
    do { _ = try await notes.find(by: 1) } catch { codes.append(error.code) }
    do { _ = try await notes.contains(1) } catch { codes.append(error.code) }
    do { try await notes.deleteAll() } catch { codes.append(error.code) }
    do { try await notes.save(Note(id: 1, text: "")) } catch { codes.append(error.code) }
    do { _ = try reader.find(by: 1) } catch { codes.append(error.code) }
    #expect(codes == Array(repeating: .closed, count: 5))
    let again = try LocalRepository<Note>(directory: folder.url, filename: "notes")
    #expect(try await again.loadAll() == [Note(id: 1, text: "kept")])
    try await again.close()
    let refused = LocalRepository<Note>.opened(filename: "no/name")
    await #expect(throws: StoreError.self) { try await refused.deleteAll() }
  }
}
