import Foundation
import Moraine
import MoraineTesting
import Testing

/// The models in memory are those of the store, for any writers, and in whatever order their writes
/// end.
@Suite(.timeLimit(.minutes(10))) struct RepositoryCacheTests {
  @Test(arguments: [CachePolicy.none, .all, .bounded(models: 3), .bounded(bytes: 200)])
  func cacheNeverAnswersWithAnOutdatedModel(policy: CachePolicy) async throws {
    let store = Store.inMemory()
    let repositories = try (0..<3).map { _ in
      try LocalRepository<Note>(in: store, named: "notes", cache: policy)
    }
    for seed in 0..<20 as Range<UInt64> {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for task in 0..<6 as Range<UInt64> {
          group.addTask {
            var random = SeededGenerator(seed: seed * 6 + task)
            for _ in 0..<20 {
              let repository = repositories[Int(random.next() % 3)]
              let id = Int(random.next() % 8)
              switch random.next() % 8 {
              case 0: try await repository.delete(id)
              case 1: _ = try await repository.find(by: id)
              case 2:
                try await repository.update(id) { $0.map { Note(id: id, text: $0.text + "+") } }
              case 3:
                let text = "\(random.next() % 100)"
                try await repository.write { batch in
                  try batch.save(Note(id: id, text: text))
                  batch.delete((id + 1) % 8)
                }
              case 4: if random.next() % 8 == 0 { try await repository.deleteAll() }
              default: try await repository.save(Note(id: id, text: "\(random.next() % 100)"))
              }
            }
          }
        }
        try await group.waitForAll()
      }
      let fresh = try LocalRepository<Note>(in: store, named: "notes", cache: .none)
      for id in 0..<8 {
        let truth = try await fresh.find(by: id)
        for repository in repositories {
          #expect(try await repository.find(by: id) == truth, "seed \(seed), id \(id), \(policy)")
        }
      }
    }
  }

  /// Memory changes only after the append has succeeded.
  @Test func aSaveThatFailedIsNotInMemory() async throws {
    let fault = DiskFault(.ioError, on: [.sync], file: "0000000001.segment", occurrence: 3)
    let store = try SimulatedDisk().openStore(faults: [fault])
    let notes = try LocalRepository<Note>(in: store, named: "", durability: .sync)
    try await notes.save(Note(id: 1, text: "before"))
    var failed: Int?
    for number in 0..<5 where failed == nil {
      do { try await notes.save(Note(id: 1, text: "\(number)")) } catch { failed = number }
    }
    let number = try #require(failed)
    let stored = try await store.value(forKey: "1").map { String(decoding: $0, as: UTF8.self) }
    let found = try #require(try await notes.find(by: 1))
    #expect(stored?.contains("\"\(found.text)\"") == true, "memory and store agree")
    #expect(["before", "\(number - 1)", "\(number)"].contains(found.text))
  }
}
