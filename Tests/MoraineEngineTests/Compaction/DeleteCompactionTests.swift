import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Deletes make garbage without sealing a segment. They begin compactions themselves.
@Suite(.timeLimit(.minutes(10))) struct DeleteCompactionTests {
  private static let count = 200

  /// Puts values that do not compress, 4 MB together.
  private func fill(_ store: Store) async throws {
    var random = SeededGenerator(seed: 1)
    for number in 0..<Self.count {
      let value = (0..<20_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      try await store.set(value, forKey: Key("\(number)"))
    }
    try await store.waitUntilIdle()
  }

  private func expectLittleGarbage(_ store: Store) async throws {
    try await store.waitUntilIdle()
    let statistics = try await store.statistics()
    #expect(statistics.count == 10)
    #expect(statistics.compactionCount > 0)
    #expect(statistics.diskBytes < 1_500_000, "\(statistics)")
  }

  /// Regression: the size at the first delete decided when deletes begin compactions, however large
  /// the store became.
  @Test func deletesFromAGrownStoreBeginACompaction() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: .testing(segmentSizeBytes: 1 << 20))
    try await store.write { try $0.set([1], forKey: "first") }
    try await store.removeValue(forKey: "first")
    try await fill(store)
    for number in 10..<Self.count { try await store.removeValue(forKey: Key("\(number)")) }
    try await expectLittleGarbage(store)
    try await store.close()
  }

  /// Regression: a batch in a shared store, and a transaction that had waited for its turn, asked
  /// for a compaction while no compaction could begin, and not again.
  @Test func batchOfDeletesInASharedStoreBeginsACompaction() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: .shared(segmentSizeBytes: 1 << 20))
    try await fill(store)
    try await store.write { batch in
      for number in 10..<Self.count { try batch.removeValue(forKey: Key("\(number)")) }
    }
    try await expectLittleGarbage(store)
    try await store.close()
  }

  /// Regression: a file that could not be removed on a full disk ended the compaction as if nothing
  /// had been replaced, and the file stayed.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func fileThatCannotBeRemovedIsRemovedLater(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 40
    let first = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<100 { try await first.set([UInt8](0..<200), forKey: Key("\(number)")) }
    try await first.close()
    configuration.segmentSizeBytes = 20_000
    let store = try Store(on: storage, at: "store", configuration: configuration)
    storage.setScript { event in
      event.operation == .remove && event.file.hasSuffix(".segment") ? .fail(.noSpace) : nil
    }
    try await store.compact()
    storage.setScript(nil)
    try await store.compact()
    try await store.set([1], forKey: "0")
    try await store.compact()
    let directory = try #require(try memory.openDirectory("store"))
    let fileCount = try directory.entries().count { $0.name.hasSuffix(".segment") }
    #expect(try await store.statistics().segmentCount == fileCount)
    for number in 1..<100 {
      #expect(try await store.value(forKey: Key("\(number)")) == [UInt8](0..<200))
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
