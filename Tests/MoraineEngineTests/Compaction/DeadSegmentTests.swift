import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A segment in which nothing is live is removed without being read.
struct DeadSegmentTests {
  private static func configuration() -> Store.Configuration {
    var configuration = Store.Configuration.testing(ioMode: .positional)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 0
    return configuration
  }

  private static func fill(_ store: Store, _ value: UInt8) async throws {
    for number in 0..<300 { try await store.set([value], forKey: Key("\(number)")) }
    try await store.sealForCompaction()
  }

  @Test func segmentWithoutLiveRecordsIsRemovedUnread() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration())
    try await Self.fill(store, 1)
    try await Self.fill(store, 2)
    #expect(await store.areDead == [true, false])
    let reads = Mutex<Set<String>>([])
    storage.setScript { event in
      if event.operation == .read { reads.withLock { _ = $0.insert(event.file) } }
      return nil
    }
    try await store.compact()
    storage.setScript(nil)
    let files = reads.withLock { $0 }
    #expect(files.contains("0000000002.segment") && !files.contains("0000000001.segment"))
    #expect(try await store.count() == 300)
    #expect(try await store.value(forKey: "7") == [2])
    try await store.close()
  }

  @Test func segmentWithDeletesIsRead() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration())
    try await store.set([1], forKey: "x")
    try await store.removeValue(forKey: "x")
    try await Self.fill(store, 1)
    try await Self.fill(store, 2)
    #expect(await store.areDead == [false, false])
    try await store.close()
  }

  /// The figures of a checkpoint may be forged: a compaction compares them with the records.
  @Test func segmentThatACheckpointCallsDeadIsRead() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: Self.configuration())
    try await Self.fill(store, 1)
    try await Self.fill(store, 2)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: Self.configuration())
    #expect(try await again.count() == 300)
    #expect(await again.recoveryReport.usedCheckpoint)
    #expect(await again.areDead == [false, false])
    try await again.compact()
    #expect(try await again.count() == 300)
    try await again.close()
  }

  @Test func segmentsAreReadWhenTheirFiguresDoNotAddUp() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration())
    try await Self.fill(store, 1)
    try await Self.fill(store, 2)
    await store.forgetOneRecord()
    #expect(await store.areDead == [false, false])
  }
}

extension Store {
  fileprivate var areDead: [Bool] {
    engine!.compactionInputs(engine!.compactable()).map(\.isDead)
  }

  /// Changes the figures of the last segment, as if a record of it had not been counted.
  fileprivate func forgetOneRecord() {
    let slot = engine!.compactable().last!
    engine!.log.table[slot].lose(8, .of(hash: 1, sequence: 1), at: 0)
  }
}
