import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Deletes make garbage without sealing a segment. They begin compactions themselves.
@Suite(.timeLimit(.minutes(10))) struct DeleteCompactionTests {
  private static let count = 200

  /// Puts values of 20,000 bytes that do not compress: 4 MB, if the caller does not give a count.
  private func fill(_ store: Store, _ count: Int = Self.count) async throws {
    var random = SeededGenerator(seed: 1)
    for number in 0..<count {
      let value = (0..<20_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      try await store.set(value, forKey: Key("\(number)"))
    }
    try await store.waitUntilIdle()
  }

  private func remove(_ numbers: Range<Int>, of store: Store) async throws {
    try await store.write { batch in
      for number in numbers { try batch.removeValue(forKey: Key("\(number)")) }
    }
  }

  /// Locks the compaction of a shared store, as another process does that compacts.
  private func lockCompaction(_ storage: MemoryStorage) throws -> any StorageFile {
    let directory = try #require(try storage.openDirectory("store"))
    let lock = try #require(try directory.openFile(FileName.compactorLock, .readWrite))
    #expect(try lock.tryLock(shared: false))
    return lock
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
    try await remove(10..<Self.count, of: store)
    try await expectLittleGarbage(store)
    try await store.close()
  }

  /// Regression: deletes beside a compaction of another process began none, also later.
  @Test func deletesBesideACompactionOfAnotherProcessBeginOneLater() async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.shared(segmentSizeBytes: 1 << 20)
    configuration.idleInterval = .milliseconds(1)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await fill(store)
    let lock = try lockCompaction(storage)
    try await remove(10..<Self.count, of: store)
    try await store.waitUntilIdle()
    #expect(try await store.statistics().diskBytes > 3_000_000)
    lock.unlock()
    while try await store.statistics().diskBytes > 1_500_000 { await Task.yield() }
    try await expectLittleGarbage(store)
    try await store.close()
  }

  /// Regression: deletes beside a compaction that waited for another process's, and was cancelled,
  /// began none.
  @Test func deletesBesideACancelledCompactionBeginOneLater() async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.shared(segmentSizeBytes: 1 << 20)
    configuration.idleInterval = .milliseconds(1)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await fill(store)
    let lock = try lockCompaction(storage)
    let compacting = Task { _ = try await store.compact() }
    while await !store.isCompacting { await Task.yield() }
    try await remove(10..<Self.count, of: store)
    compacting.cancel()
    await #expect(throws: StoreError.self) { try await compacting.value }
    lock.unlock()
    while try await store.statistics().diskBytes > 1_500_000 { await Task.yield() }
    try await expectLittleGarbage(store)
    try await store.close()
  }

  /// Regression: deletes beside a compaction that the program had asked for began none after it.
  @Test func deletesBesideACompactionOfACallerBeginOneLater() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(segmentSizeBytes: 1 << 20))
    try await fill(store, 40)
    try await store.removeValue(forKey: "0")
    try await store.waitUntilIdle()
    // The only output has its records when it is synced; the deletes make garbage of them.
    let gate = Gate()
    let output = Mutex<String?>(nil)
    storage.setScript { event in
      output.withLock { output in
        if event.operation == .createFile, event.file.hasSuffix(".segment") {
          output = output ?? event.file
        }
        return event.operation == .synchronizeFull && event.file == output ? .hang(gate) : nil
      }
    }
    let compacting = Task { _ = try await store.compact() }
    await gate.arrival()
    try await remove(11..<40, of: store)
    gate.open()
    try await compacting.value
    try await expectLittleGarbage(store)
    #expect(try await store.statistics().diskBytes < 700_000)
    storage.setScript(nil)
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
    for round in 0..<2 {
      for number in stride(from: 0, to: 100, by: round + 1) {
        try await first.set([UInt8](0..<200), forKey: Key("\(number)"))
      }
    }
    try await first.close()
    configuration.segmentSizeBytes = 20_000
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let directory = try #require(try memory.openDirectory("store"))
    let inputs = Set(try directory.entries().map(\.name))
    // Before an output is created, a file with its name is removed, which does not exist.
    storage.setScript { event in
      event.operation == .remove && event.file.hasSuffix(".segment") && inputs.contains(event.file)
        ? .fail(.noSpace) : nil
    }
    try await store.compact()
    storage.setScript(nil)
    func fileCount() throws -> Int {
      try directory.entries().count { $0.name.hasSuffix(".segment") }
    }
    #expect(try await store.statistics().segmentCount < fileCount())
    try await store.compact()
    try await store.set([1], forKey: "0")
    try await store.compact()
    #expect(try await store.statistics().segmentCount == fileCount())
    for number in 1..<100 {
      #expect(try await store.value(forKey: Key("\(number)")) == [UInt8](0..<200))
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
