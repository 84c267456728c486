import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// The promises of the change feed.
@Suite(.timeLimit(.minutes(10))) struct ChangeFeedTests {
  private func next(
    _ count: Int, _ iterator: inout ChangeSequence.Iterator
  ) async throws -> [Store.Change] {
    var changes: [Store.Change] = []
    while changes.count < count, let change = try await iterator.next() { changes.append(change) }
    return changes
  }

  @Test(arguments: KeyspaceTests.modes)
  func everyChangeComesInOrder(mode: Store.Configuration.IOMode) async throws {
    let configuration = Store.Configuration.testing(segmentSizeBytes: 500, ioMode: mode)
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let users = try store.keyspace(named: "users")
    var iterator = store.changes().makeAsyncIterator()
    let writer = Task {
      for number in 0..<100 {
        try await store.set([UInt8](repeating: UInt8(number), count: 40), forKey: "a")
        try await store.write { batch in
          try batch.set([UInt8(number)], forKey: "b", in: users)
          try batch.removeValue(forKey: "a")
        }
      }
    }
    let changes = try await next(300, &iterator)
    try await writer.value
    #expect(changes.map(\.sequence.rawValue) == Array(1...300))
    for number in 0..<100 {
      let three = changes[number * 3..<number * 3 + 3]
      #expect(three.map(\.key) == ["a", "b", "a"])
      #expect(three.map(\.keyspace) == ["", "users", ""])
      let values: [[UInt8]?] = [
        [UInt8](repeating: UInt8(number), count: 40), [UInt8(number)], nil,
      ]
      #expect(three.map(\.value) == values)
    }
    try await store.close()
    #expect(try await iterator.next() == nil, "a closed store has no more changes")
  }

  @Test func cursorContinuesAfterReopening() async throws {
    let disk = SimulatedDisk()
    let first = try disk.openStore(configuration: .testing())
    var iterator = first.changes().makeAsyncIterator()
    for number in 0..<5 { try await first.set([1], forKey: Key("\(number)")) }
    let seen = try await next(3, &iterator)
    try await first.close()
    let saved = try JSONEncoder().encode(seen[2].cursor)
    let cursor = try JSONDecoder().decode(ChangeCursor.self, from: saved)
    #expect(cursor == seen[2].cursor)
    let second = try disk.openStore(configuration: .testing())
    try await second.removeValue(forKey: "0")
    var again = second.changes(since: cursor).makeAsyncIterator()
    let rest = try await next(3, &again)
    #expect(rest.map(\.key) == ["3", "4", "0"])
    #expect(rest[2].isRemoval)
    try await second.close()
  }

  @Test func keyspaceHasItsOwnFeed() async throws {
    let store = Store.inMemory()
    let users = try store.keyspace(named: "users")
    var iterator = users.changes().makeAsyncIterator()
    for number in 0..<1000 { try await store.set([1], forKey: Key("\(number)")) }
    try await users.set([7], forKey: "a")
    let change = try #require(try await iterator.next())
    #expect(change.keyspace == "users" && change.key == "a" && change.value == [7])
    var everything = users.contentsAndChanges().makeAsyncIterator()
    #expect(try await everything.next()?.key == "a")
  }

  /// Intermediate states may be missing after the gap; the present states and the deletes are not.
  @Test func feedAfterAGapHasTheLatestStatesAndTheDeletes() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 500)
    configuration.compaction = .manual
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    store.waitForIteratorsForever()
    for key in ["kept", "removed"] as [Key] { try await store.set([0], forKey: key) }
    var iterator = store.contentsAndChanges().makeAsyncIterator()
    let cursor = try #require(try await next(2, &iterator).last?.cursor)
    for number in 0..<100 { try await store.set([UInt8(number)], forKey: "kept") }
    try await store.removeValue(forKey: "removed")
    for number in 0..<100 {
      try await store.set([UInt8](repeating: 1, count: 20), forKey: Key("\(number % 3)"))
    }
    // This iterator has not seen the delete yet.
    _ = try await store.compact()
    var later = store.changes(since: cursor).makeAsyncIterator()
    for var each in [iterator, later] {
      let changes = try await next(5, &each)
      #expect(Set(changes.map(\.key)) == ["kept", "removed", "0", "1", "2"])
      #expect(changes.first { $0.key == "kept" }?.value == [99])
      #expect(changes.first { $0.key == "removed" }?.isRemoval == true)
      #expect(changes.map(\.sequence) == changes.map(\.sequence).sorted())
    }
    later = store.changes().makeAsyncIterator()
    _ = later
  }

  /// A delete is never missing without an error.
  @Test func cursorBeforeDroppedDeletesHasExpired() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 500)
    configuration.compaction = .manual
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([0], forKey: "a")
    let cursor = try #require(try await firstCursor(store))
    try await store.set([0], forKey: "b")
    try await store.removeValue(forKey: "a")
    // Twice: the delete may be removed when the record that it deletes was removed.
    for _ in 0..<2 {
      _ = try await store.compact()
      try await store.set([0], forKey: "c")
    }
    var iterator = store.changes(since: cursor).makeAsyncIterator()
    let error = await #expect(throws: StoreError.self) { try await iterator.next() }
    #expect(error?.code == .cursorExpired)
    var everything = store.contentsAndChanges().makeAsyncIterator()
    #expect(Set(try await next(2, &everything).map(\.key)) == ["b", "c"])
  }

  private func firstCursor(_ store: Store) async throws -> ChangeCursor? {
    var iterator = store.contentsAndChanges().makeAsyncIterator()
    return try await iterator.next()?.cursor
  }

  @Test func aCursorOfAnotherLineageHasDiverged() async throws {
    let (one, other) = (Store.inMemory(), Store.inMemory())
    for store in [one, other] { try await store.set([0], forKey: "a") }
    let cursor = try #require(try await firstCursor(one))
    for store in [other, Store.inMemory()] {
      var iterator = store.changes(since: cursor).makeAsyncIterator()
      let error = await #expect(throws: StoreError.self) { try await iterator.next() }
      #expect(error?.code == .cursorDiverged)
    }
  }

  /// A reader has seen the changes that a power failure lost.
  @Test func aCursorOfLostChangesHasDiverged() async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: .testing())
    try await store.set([0], forKey: "a", durability: .sync)
    var iterator = store.changes().makeAsyncIterator()
    for number in 0..<50 { try await store.set([1], forKey: Key("\(number)")) }
    let cursor = try #require(try await next(50, &iterator).last?.cursor)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: .testing())
    var resumed = after.changes(since: cursor).makeAsyncIterator()
    let error = await #expect(throws: StoreError.self) { try await resumed.next() }
    #expect(error?.code == .cursorDiverged)
  }

  /// Regression: the manifest of a compaction counted the writes beside it as durable.
  @Test func aCursorOfALostWriteBesideACompactionHasDiverged() async throws {
    let disk = SimulatedDisk()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 40
    let store = try disk.openStore(configuration: configuration)
    for number in 0..<100 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number % 10)"))
    }
    try await store.waitUntilIdle()
    await store.takeManifestGate()
    let compaction = Task { try await store.compact(segments: 0..<1) }
    while await !store.hasWaitersForTheManifest { await Task.yield() }
    // The compaction has synced the log already.
    try await store.set([1], forKey: "lost")
    let last = try await store.statistics().lastSequence.rawValue
    var iterator = store.changes(after: SequenceNumber(rawValue: last - 1)).makeAsyncIterator()
    let cursor = try #require(try await next(1, &iterator).last?.cursor)
    await store.releaseManifestGate()
    try await compaction.value
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: configuration)
    #expect(try await after.value(forKey: "lost") == nil)
    var resumed = after.changes(since: cursor).makeAsyncIterator()
    let error = await #expect(throws: StoreError.self) { try await resumed.next() }
    #expect(error?.code == .cursorDiverged)
  }

  @Test func cancellationEndsTheWait() async throws {
    let store = Store.inMemory()
    try await store.set([0], forKey: "a")
    let task = Task {
      var iterator = store.changes().makeAsyncIterator()
      return try await iterator.next()
    }
    await waitForWatcher(store)
    task.cancel()
    #expect(try await task.value == nil)
  }

  private func waitForWatcher(_ store: Store) async {
    while await store.watcherCount == 0 { await Task.yield() }
  }

  /// A cursor comes from a file that an app has kept.
  @Test(arguments: [
    #"{"store":"not a number","epoch":1,"sequence":1}"#,
    #"{"store":"000102030405060708090a0b0c0d0e0f","epoch":1,"sequence":18446744073709551615}"#,
    #"{"store":"000102030405060708090a0b0c0d0e0f","epoch":1}"#,
  ])
  func malformedCursorIsNotDecoded(text: String) {
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode(ChangeCursor.self, from: Data(text.utf8))
    }
  }

  @Test func valueSequenceYieldsTheLatestValues() async throws {
    let store = Store.inMemory()
    var iterator = store.values(forKey: "a").makeAsyncIterator()
    #expect(try await iterator.next() == .some(nil))
    try await store.set([1], forKey: "a")
    try await store.set([1], forKey: "other")
    #expect(try await iterator.next() == .some([1]))
    for number in 2..<10 { try await store.set([UInt8(number)], forKey: "a") }
    #expect(try await iterator.next() == .some([9]), "intermediate values are left out")
    try await store.removeValue(forKey: "a")
    #expect(try await iterator.next() == .some(nil))
    try await store.close()
    #expect(try await iterator.next() == nil)
  }
}
