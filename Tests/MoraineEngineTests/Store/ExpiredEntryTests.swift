import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Entries that have expired and are not deleted yet: no count and no page knows them, and they are
/// deleted as a whole.
@Suite(.timeLimit(.minutes(10))) struct ExpiredEntryTests {
  private let clock = ManualClock(startingAt: 1_000_000)

  private var configuration: Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4096, ioMode: .positional)
    configuration.clock = clock
    configuration.expiryGrace = .seconds(60)
    configuration.compaction = .manual
    // The tests call the reaper themselves.
    configuration.reapInterval = .seconds(1_000_000)
    return configuration
  }

  @Test func countsLeaveOutEntriesWhoseDeletionWaitsForASegment() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let keyspace = try store.keyspace(named: "k")
    // Their deletes do not fit into the rest of the segment.
    for number in 10..<100 {
      try await keyspace.set([1], forKey: Key("\(number)"), expiring: .after(.seconds(5)))
    }
    try #require(try await store.statistics().segmentCount == 1)
    clock.advance(by: .seconds(100))
    let gate = Gate()
    storage.setScript { event in
      event.operation == .createFile && event.file == "0000000002.segment" ? .hang(gate) : nil
    }
    let removal = Task { try await store.removeExpired() }
    await gate.arrival()
    #expect(try await keyspace.count() == 0)
    #expect(try await store.count() == 0)
    #expect(try await store.keyspaceStatistics().allSatisfy { $0.count == 0 })
    #expect(try await store.statistics().count == 90)
    gate.open()
    #expect(try await removal.value == 90)
    storage.setScript(nil)
    #expect(try await store.statistics().count == 0)
    #expect(try await store.count() == 0)
    try await store.close()
  }

  @Test func pageBeforeExpiredEntriesOnlyIsTheLast() async throws {
    let store = Store.inMemory(configuration: configuration)
    let keyspace = try store.orderedKeyspace(named: "k")
    try await keyspace.set([1], forKey: "a")
    try await keyspace.set([1], forKey: "b", expiring: .after(.seconds(5)))
    #expect(try await keyspace.entries(limit: 1).next != nil)
    clock.advance(by: .seconds(5))
    let last = try await keyspace.entries(limit: 1)
    #expect(last.entries.map(\.key) == ["a"])
    #expect(last.next == nil)
    try await keyspace.set([1], forKey: "c")
    for order in [KeyOrder.ascending, .descending] {
      let keys: [Key] = order == .ascending ? ["a", "c"] : ["c", "a"]
      let first = try await keyspace.entries(order: order, limit: 1)
      #expect(first.entries.map(\.key) == [keys[0]])
      let token = try #require(first.next)
      let second = try await keyspace.entries(after: token, limit: 1)
      #expect(second.entries.map(\.key) == [keys[1]])
      #expect(second.next == nil)
    }
    try await store.close()
  }

  /// A process may end between two batches, and the clock may prove to have been wrong.
  @Test func recordIsDeletedTogetherWithItsIndexEntries() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let indexes = try store.orderedKeyspace(named: IndexLayout.name(for: "people"))
    let index = IndexCatalog.Index(
      number: 7, name: "age", modelVersion: 0, state: .ready, addition: 1)
    try await store.write { batch in
      try batch.set(IndexCatalog([index]).bytes, forKey: IndexLayout.catalogKey, in: indexes)
    }
    let people = try store.keyspace(named: "people")
    for number in 0..<300 {
      let entry = Self.entry(number)
      let value = IndexRow.Value(entry.value, isUnique: entry.isUnique)
      let row = IndexRow([IndexRow.Part(index: 7, values: [value])])
      try await store.write { batch in
        try batch.set(
          [1], forKey: entry.key, in: people, expiring: .after(.seconds(5)), row: row)
      }
    }
    clock.advance(by: .seconds(100))
    let count = try #require(try await store.reapBatch(through: clock.milliseconds - 60_000))
    #expect(count > 0 && count < 900)
    try await store.close()

    clock.set(toMilliseconds: 1_000_000)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    let left = try again.keyspace(named: "people")
    let system = try again.orderedKeyspace(named: IndexLayout.name(for: "people"))
    var leftCount = 0
    for number in 0..<300 {
      let entry = Self.entry(number)
      let isLeft = try await left.contains(entry.key)
      leftCount += isLeft ? 1 : 0
      #expect(try await system.contains(IndexLayout.rowKey(of: entry.key)) == isLeft, "\(number)")
      #expect(try await system.contains(entry.recordKey) == isLeft, "\(number)")
    }
    #expect(leftCount > 0 && leftCount < 300)
    #expect(try await again.verify().isSound)
    // The rest follows.
    clock.advance(by: .seconds(100))
    #expect(try await again.removeExpired() == 3 * leftCount)
    #expect(try await again.statistics().count == 1, "the list of the indexes")
    try await again.close()
  }

  /// Returns the entry of a record: of even ones a unique one.
  private static func entry(_ number: Int) -> SecondaryIndexEntry {
    let isUnique = number % 2 == 0
    let value = isUnique ? [9, UInt8(number / 256), UInt8(number % 256)] : [UInt8(number % 5)]
    return SecondaryIndexEntry(index: 7, value: value, key: Key("\(number)"), isUnique: isUnique)
  }
}
