import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A failure at or after the sync of a checkpoint ends writing, like any other failed sync (P6).
@Suite struct CheckpointFailureTests {
  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration.testing()
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  private func fail(_ operation: StorageEvent.Operation, of storage: FaultStorage) {
    storage.setScript { event in
      event.operation == operation && event.file == "INDEX.tmp" ? .fail(.ioError) : nil
    }
  }

  @Test(arguments: [StorageEvent.Operation.synchronizeFull, .rename])
  func failedSyncOrRenameOfACheckpointPoisons(operation: StorageEvent.Operation) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    for number in 0..<20 { try await store.set([1], forKey: Key("\(number)")) }
    fail(operation, of: storage)
    let error = await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(error?.errno == .ioError)
    #expect(error?.file == "INDEX.tmp")
    storage.setScript(nil)
    #expect(store.poison != nil)
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "0") }
    #expect(try await store.value(forKey: "0") == [1])
    try await store.close()
    try await expectAll(storage)
  }

  @Test(arguments: [StorageEvent.Operation.synchronizeFull, .rename])
  func closeThrowsTheFailureOfItsCheckpoint(operation: StorageEvent.Operation) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    for number in 0..<20 { try await store.set([1], forKey: Key("\(number)")) }
    fail(operation, of: storage)
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.errno == .ioError)
    #expect(error?.file == "INDEX.tmp")
    storage.setScript(nil)
    try await expectAll(storage)
  }

  private func expectAll(_ storage: FaultStorage) async throws {
    let again = try Store(on: storage, at: "store", configuration: Self.configuration)
    #expect(try await again.count() == 20)
    try await again.set([2], forKey: "0")
    #expect(try await again.verify().isSound)
    try await again.close()
    let directory = try #require(try storage.openDirectory("store"))
    #expect(try directory.entries().contains { $0.name.hasSuffix(".index") })
    #expect(try !directory.entries().contains { $0.name == "INDEX.tmp" })
  }
}
