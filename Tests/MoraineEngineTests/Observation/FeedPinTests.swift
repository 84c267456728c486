import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine

/// For a while, compaction keeps the changes that a feed has not seen.
@Suite(.timeLimit(.minutes(10))) struct FeedPinTests {
  /// Returns the changes up to the last one: a change that is missing before it fails a test at
  /// once.
  private func changes(
    through last: UInt64, _ iterator: inout ChangeSequence.Iterator
  ) async throws -> [Store.Change] {
    var changes: [Store.Change] = []
    while changes.last?.sequence.rawValue != last, let change = try await iterator.next() {
      changes.append(change)
    }
    return changes
  }

  /// While an iterator runs it sees every change, including changes that are already garbage.
  @Test func backgroundCompactionKeepsUnseenChanges() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.compaction = CompactionPolicy()
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    store.waitForIteratorsForever()
    try await store.set([0], forKey: "a")
    var iterator = store.contentsAndChanges().makeAsyncIterator()
    _ = try await iterator.next()
    for number in 0..<5000 {
      try await store.set([UInt8](repeating: UInt8(number % 256), count: 40), forKey: "a")
    }
    try await store.waitUntilIdle()
    let changes = try await changes(through: 5001, &iterator)
    #expect(changes.map { $0.value?[0] } == (0..<5000).map { UInt8($0 % 256) })
    #expect(try await store.statistics().compactionCount == 0)
    // There was enough garbage; only the iterator kept compaction from removing it.
    for number in 0..<100 { try await store.set([UInt8(number)], forKey: "a") }
    try await store.waitUntilIdle()
    #expect(try await store.statistics().compactionCount > 0)
  }

  /// A task that is to iterate over the changes may start much later.
  @Test(arguments: [false, true])
  func compactionKeepsChangesBeforeTheFirstStepOfAnIterator(hasIterator: Bool) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.compaction = CompactionPolicy()
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    store.waitForIteratorsForever()
    try await store.set([0], forKey: "a")
    let sequence = store.changes()
    let early = hasIterator ? sequence.makeAsyncIterator() : nil
    for number in 0..<5000 {
      try await store.set([UInt8](repeating: UInt8(number % 256), count: 40), forKey: "a")
    }
    try await store.waitUntilIdle()
    var iterator = early ?? sequence.makeAsyncIterator()
    let changes = try await changes(through: 5001, &iterator)
    #expect(changes.map(\.sequence.rawValue) == Array(2...5001))
    #expect(try await store.statistics().compactionCount == 0)
    for number in 0..<100 { try await store.set([UInt8(number)], forKey: "a") }
    try await store.waitUntilIdle()
    #expect(try await store.statistics().compactionCount > 0)
  }

  /// Regression: a later iterator began when the sequence was created. After a compaction, such an
  /// iterator could only throw `.cursorExpired`.
  @Test func aLaterIteratorBeginsWhenItIsCreated() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 500)
    configuration.compaction = .manual
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    store.waitForIteratorsNever()
    try await store.set([0], forKey: "a")
    var contents = store.contentsAndChanges().makeAsyncIterator()
    let first = try await contents.next()
    let cursor = try #require(first?.cursor)
    let sequences = [store.changes(), try store.keyspace(named: "").changes()]
    let fromCursor = store.changes(since: cursor)
    for sequence in sequences + [fromCursor] { _ = sequence.makeAsyncIterator() }
    try await store.set([0], forKey: "b")
    try await store.removeValue(forKey: "a")
    // Twice: the delete may be removed when the record that it deletes was removed.
    for _ in 0..<2 {
      _ = try await store.compact()
      try await store.set([0], forKey: "c")
    }
    let later = sequences.map { $0.makeAsyncIterator() }
    let last = try await store.set([1], forKey: "d")
    for var iterator in later {
      let change = try await iterator.next()
      #expect(change?.sequence == last)
    }
    // A cursor names a place, for each iterator the same.
    var iterator = fromCursor.makeAsyncIterator()
    let error = await #expect(throws: StoreError.self) { try await iterator.next() }
    #expect(error?.code == .cursorExpired)
    try await store.close()
  }
}
