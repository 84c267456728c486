import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Deleting records releases their space and their memory.
@Suite(.timeLimit(.minutes(10))) struct GivingBackTests {
  /// Deletes take so little space that they never cause a segment to be sealed.
  @Test func deletingEverythingReleasesTheSpaceWithoutACall() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store")
    var random = SeededGenerator(seed: 1)
    let value = (0..<50_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    for number in 0..<400 { try await store.set(value, forKey: Key("\(number)")) }
    #expect(try await store.statistics().diskBytes > 20_000_000)
    for number in 0..<400 { try await store.removeValue(forKey: Key("\(number)")) }
    try await store.waitUntilIdle()
    #expect(try await store.statistics().diskBytes < 2_000_000)
    try await store.close()
  }

  /// Found under AddressSanitizer: the last deletes came while a compaction was writing its
  /// checkpoint. None of them started another compaction, and nothing else would start one.
  @Test func spaceOfRecordsDeletedDuringACompactionIsReleased() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration()
    configuration.checkpointFloorBytes = 0
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var random = SeededGenerator(seed: 1)
    let value = (0..<50_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    for number in 0..<400 { try await store.set(value, forKey: Key("\(number)")) }
    let gate = Gate()
    let hasHung = Mutex(false)
    storage.setScript { event in
      guard event.operation == .createFile, event.file == "INDEX.tmp" else { return nil }
      return hasHung.withLock { hasHung in
        defer { hasHung = true }
        return hasHung ? nil : .hang(gate)
      }
    }
    for number in 0..<320 { try await store.removeValue(forKey: Key("\(number)")) }
    await gate.arrival()
    for number in 320..<400 { try await store.removeValue(forKey: Key("\(number)")) }
    gate.open()
    try await store.waitUntilIdle()
    #expect(try await store.statistics().diskBytes < 2_000_000)
    try await store.close()
  }

  /// When a run ends before its garbage was compacted, the next run that writes compacts it.
  @Test func garbageOfAnEarlierRunIsCleaned() async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration()
    configuration.compaction = .manual
    let first = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<400 {
      try await first.set([UInt8](repeating: 1, count: 3), forKey: Key("\(number % 4)"))
      try await first.write { batch in
        for place in 0..<4 {
          var random = SeededGenerator(seed: UInt64(number * 4 + place))
          let value = (0..<5_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
          try batch.set(value, forKey: Key("long \(place)"))
        }
      }
    }
    try await first.close()
    let second = try Store(on: storage, at: "store")
    #expect(try await second.statistics().diskBytes > 7_000_000)
    try await second.set([1], forKey: "a")
    try await second.waitUntilIdle()
    #expect(try await second.statistics().diskBytes < 1_000_000)
    try await second.close()
  }

  /// Regression: the index grew with the keys, and did not shrink with them; nor did its
  /// checkpoint.
  @Test func deletingEverythingReleasesTheIndex() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store")
    func all(_ body: @escaping @Sendable (inout WriteBatch, Key) throws -> Void) async throws {
      for start in stride(from: 0, to: 100_000, by: 10_000) {
        try await store.write { batch in
          for number in start..<start + 10_000 { try body(&batch, Key("\(number)")) }
        }
      }
    }
    try await all { try $0.set([], forKey: $1) }
    #expect(try await store.statistics().indexBytes > 1_000_000)
    try await all { try $0.removeValue(forKey: $1) }
    try await store.set([7], forKey: "left")
    try await store.compact()
    #expect(try await store.statistics().indexBytes < 100_000)
    #expect(try await store.value(forKey: "left") == [7])
    try await store.close()
    let directory = try #require(try storage.openDirectory("store"))
    #expect(try directory.entries().reduce(0) { $0 + $1.lengthBytes } < 200_000)
  }
}
