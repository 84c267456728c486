import Moraine
import MoraineTesting
import Testing

/// The order of all models: that in which they were last saved.
@Suite(.timeLimit(.minutes(5))) struct LoadOrderTests {
  /// Returns models in an ordered keyspace, whose records compaction has written in the order of
  /// their keys, and the ids in the order in which the models were saved.
  private static func compacted() async throws -> (Store, LocalRepository<Note>, [Int]) {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 8 << 10
    configuration.compaction = .manual
    let store = Store.inMemory(configuration: configuration)
    // The first put through this handle makes the keyspace ordered.
    let keyspace = try store.orderedKeyspace(named: "notes")
    try await keyspace.set([1], forKey: "first")
    try await keyspace.removeValue(forKey: "first")
    let notes = try LocalRepository<Note>(in: store, named: "notes")
    var random = SeededGenerator(seed: 1)
    let ids = (0..<500).shuffled(using: &random)
    for id in 0..<500 { try await notes.save(Note(id: id, text: "earlier")) }
    for id in ids { try await notes.save(Note(id: id, text: "\(id)")) }
    _ = try await store.compact()
    #expect(try await store.segmentStatistics().contains(where: \.isClustered))
    return (store, notes, ids)
  }

  @Test func modelsAreInTheOrderOfTheirSavesAfterACompactionInKeyOrder() async throws {
    let (store, notes, ids) = try await Self.compacted()
    #expect(try await notes.loadAll().map(\.id) == ids)
    try await store.close()
  }

  @Test func transactionHasTheModelsOfTheStoreInTheOrderOfTheirSaves() async throws {
    let (store, notes, ids) = try await Self.compacted()
    let found: [Int] = try await store.transaction { transaction in
      try await notes.save(Note(id: ids[7], text: "again"), in: transaction)
      return try await notes.loadAll(in: transaction).map(\.id)
    }
    #expect(found == ids.filter { $0 != ids[7] } + [ids[7]])
    try await store.close()
  }
}
