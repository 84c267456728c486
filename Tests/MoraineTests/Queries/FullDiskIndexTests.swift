import Moraine
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A full disk on which a program declares an index that the store does not have.
@Suite(.timeLimit(.minutes(10))) struct FullDiskIndexTests {
  /// Regression: adding the indexes failed first, and the delete was not tried.
  @Test(arguments: ["delete", "deleteAll", "transaction", "update", "write"])
  func modelsCanBeDeletedWhenTheDiskIsTooFullForIndexes(call: String) async throws {
    let storage = MemoryStorage(capacityBytes: 2 << 20)
    var configuration = Store.Configuration()
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let plain = try LocalRepository<Person>(in: store, named: "people")
    try await plain.save(contentsOf: (0..<9).map { Person(id: $0, age: $0 % 3, city: "Bern") })
    var random = SeededGenerator(seed: 1)
    var count = 0
    for length in [20_000, 1_000, 1] {
      let filler = (0..<length).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      while count < 10_000 {
        do { try await store.set(filler, forKey: Key("\(count)")) } catch { break }
        count += 1
      }
    }
    #expect(count < 10_000)
    let people = try LocalRepository<Person>(
      in: store, named: "people", indexes: Person.indexes)
    var error = await #expect(throws: StoreError.self) {
      try await people.save(Person(id: 9, age: 0, city: "Bern"))
    }
    #expect(error?.code == .noSpace)
    switch call {
    case "delete": try await people.delete(4)
    case "deleteAll": #expect(try await people.deleteAll() == 9)
    case "update": #expect(try await people.update(4) { _ in nil } == nil)
    case "write":
      try await people.write { batch in batch.delete(4) }
    default:
      try await store.transaction { transaction in try await people.delete(4, in: transaction) }
    }
    error = await #expect(throws: StoreError.self) {
      try await people.write { batch in
        batch.delete(5)
        try batch.save(Person(id: 9, age: 0, city: "Bern"))
      }
    }
    #expect(error?.code == .noSpace)
    error = await #expect(throws: StoreError.self) {
      try await people.update(5) { _ in Person(id: 5, age: 0, city: "Bern") }
    }
    #expect(error?.code == .noSpace)
    #expect(try await people.find(by: 4) == nil)
    #expect(try await people.count() == (call == "deleteAll" ? 0 : 8))
  }

  /// The disk has space again before the body has returned, and the indexes do not exist yet.
  @Test(arguments: [false, true]) func modelIsNotSavedWithoutTheIndexes(isBatch: Bool) async throws
  {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration()
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let plain = try LocalRepository<Person>(in: store, named: "people")
    try await plain.save(Person(id: 5, age: 1, city: "Bern"))
    let people = try LocalRepository<Person>(
      in: store, named: "people", indexes: Person.indexes)
    storage.setScript { event in event.operation == .createFile ? .fail(.noSpace) : nil }
    let error = await #expect(throws: StoreError.self) {
      if isBatch {
        try await people.write { batch in
          storage.setScript(nil)
          try batch.save(Person(id: 5, age: 2, city: "Bern"))
        }
      } else {
        try await people.update(5) { _ in
          storage.setScript(nil)
          return Person(id: 5, age: 2, city: "Bern")
        }
      }
    }
    #expect(error?.code == .noSpace)
    #expect(try await people.find(by: 5)?.age == 1)
    try await people.save(Person(id: 5, age: 2, city: "Bern"))
    #expect(try await people.query(where: \.age, is: 2).fetch().map(\.id) == [5])
    try await store.close()
  }
}
