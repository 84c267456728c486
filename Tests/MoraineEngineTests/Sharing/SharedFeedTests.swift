import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Changes that other openings write arrive in the sequences of this opening, woken by the file
/// system's events.
@Suite(.timeLimit(.minutes(10))) struct SharedFeedTests {
  @Test(arguments: SharedStoreTests.modes)
  func changesOfOtherProcessesArriveInOrder(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.shared(mode, segmentSizeBytes: 3000)
    configuration.compaction.spaceAmplificationLimit = 1.1
    let writers = try (0..<2).map { _ in
      try Store(at: directory.path, configuration: configuration)
    }
    let reader = try Store(at: directory.path, configuration: configuration)
    // Compaction must not give up waiting on a busy machine.
    for store in writers + [reader] { store.waitForIteratorsForever() }
    // The writers may also have compacted their changes from before the reader found a store.
    try await writers[0].set([0], forKey: "first")
    try await reader.applyPeerWrites()
    let changes = reader.changes()
    async let seen: [UInt64] = {
      var iterator = changes.makeAsyncIterator()
      var seen: [UInt64] = []
      while seen.last != 2001, let change = try await iterator.next() {
        seen.append(change.sequence.rawValue)
      }
      return seen
    }()
    try await withThrowingTaskGroup { group in
      for writer in writers {
        group.addTask {
          for number in 0..<1000 {
            try await writer.set([UInt8](repeating: 1, count: 50), forKey: Key("\(number % 10)"))
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try await seen == Array(2...2001))
    for store in writers + [reader] { try await store.close() }
  }

  /// No process has the store open, so no page gives the end of the log.
  @Test(arguments: SharedStoreTests.modes, [true, false])
  func changesBeginNowInAnIdleStoreThatIsOpenedForReading(
    mode: Store.Configuration.IOMode, isClosedInOrder: Bool
  ) async throws {
    let directory = try TestDirectory()
    do {
      let store = try Store(at: directory.path, configuration: .shared(mode))
      for number in 0..<3 { try await store.set([1], forKey: Key("old \(number)")) }
      if isClosedInOrder { try await store.close() }
    }
    for openings in 0..<2 {
      var configuration = Store.Configuration.shared(mode)
      configuration.isReadOnly = true
      let reader = try Store(at: directory.path, configuration: configuration)
      var changes = reader.changes().makeAsyncIterator()
      var named = try reader.keyspace(named: "").changes().makeAsyncIterator()
      let writer = try Store(at: directory.path, configuration: .shared(mode))
      try await writer.set([2], forKey: "new \(openings)")
      #expect(try await changes.next()?.key == "new \(openings)")
      #expect(try await named.next()?.key == "new \(openings)")
      if isClosedInOrder { try await writer.close() }
      try await reader.close()
    }
  }

  @Test func valueThatAnotherProcessWritesIsSeen() async throws {
    let directory = try TestDirectory()
    let writer = try Store(at: directory.path, configuration: .shared())
    let reader = try Store(at: directory.path, configuration: .shared())
    var values = reader.values(forKey: "theme").makeAsyncIterator()
    // The store does not exist yet.
    #expect(try await values.next() == .some(nil))
    try await writer.set([1], forKey: "theme")
    #expect(try await values.next() == [1])
    try await writer.set([2], forKey: "other")
    try await writer.set([3], forKey: "theme")
    #expect(try await values.next() == [3])
    try await writer.removeValue(forKey: "theme")
    #expect(try await values.next() == .some(nil))
    try await writer.close()
    try await reader.close()
  }

  /// Each first writer makes a new page; a reader must not take it for a page that it has already
  /// seen.
  @Test func readerFollowsLaterWriters() async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.shared()
    let first = try Store(at: directory.path, configuration: configuration)
    try await first.set([0], forKey: "a")
    configuration.isReadOnly = true
    let reader = try Store(at: directory.path, configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [0])
    try await first.close()
    #expect(try await reader.value(forKey: "a") == [0])
    for round in UInt8(1)...6 {
      let next = try Store(at: directory.path, configuration: .shared())
      for _ in 0..<round { try await next.set([round], forKey: "a") }
      #expect(try await reader.value(forKey: "a") == [round])
      try await next.close()
      #expect(try await reader.value(forKey: "a") == [round])
    }
    try await reader.close()
  }

  @Test func aReaderFollowsWithoutWriting() async throws {
    let directory = try TestDirectory()
    let writer = try Store(at: directory.path, configuration: .shared(segmentSizeBytes: 500))
    try await writer.set([1], forKey: "a")
    var configuration = Store.Configuration.shared()
    configuration.isReadOnly = true
    let reader = try Store(at: directory.path, configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [1])
    for number in 0..<100 { try await writer.set([UInt8(number)], forKey: Key("\(number % 7)")) }
    try await writer.compact()
    try await writer.set([9], forKey: "a")
    #expect(try await reader.value(forKey: "a") == [9])
    #expect(try await reader.value(forKey: "1") == [99])
    let error = await #expect(throws: StoreError.self) { try await reader.set([1], forKey: "a") }
    #expect(error?.code == .readOnly)
    // All writers close the store, and other writers open it.
    try await writer.close()
    let next = try Store(at: directory.path, configuration: .shared())
    try await next.set([7], forKey: "a")
    #expect(try await reader.value(forKey: "a") == [7])
    try await next.close()
    try await reader.close()
  }

  @Test func suspendedStoreHoldsNoLockAndResumesWithAllChanges() async throws {
    let directory = try TestDirectory()
    let app = try Store(at: directory.path, configuration: .shared())
    try await app.set([1], forKey: "a")
    var changes = app.changes().makeAsyncIterator()
    try await app.set([2], forKey: "a")
    #expect(try await changes.next()?.value == [2])
    try await app.suspend()
    let error = await #expect(throws: StoreError.self) { try await app.value(forKey: "a") }
    #expect(error?.code == .suspended)
    await #expect(throws: StoreError.self) { try await app.set([3], forKey: "a") }
    let alone = try Store(at: directory.path, configuration: .testing())
    try await alone.set([4], forKey: "b")
    try await alone.close()
    try await app.resume()
    #expect(try await changes.next()?.key == "b")
    #expect(try await app.contents() == ["a": [2], "b": [4]])
    try await app.set([5], forKey: "c")
    try await app.close()
  }

  /// Regression: each reading of a store took another pin, and compaction did not wait for the
  /// iterators of the processes that found none.
  @Test func processThatReadsTheStoreAgainKeepsItsPin() async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.shared()
    configuration.compaction = .manual
    let store = try Store(on: memory, at: "store", configuration: configuration)
    store.waitForIteratorsForever()
    try await store.set([1], forKey: "a")
    let other = try Store(on: memory, at: "store", configuration: configuration)
    var iterator = store.contentsAndChanges().makeAsyncIterator()
    #expect(try await iterator.next() != nil)
    for _ in 0..<3 { #expect(try await store.reread() == .installed) }
    try await store.suspend()
    try await store.resume()
    #expect(await other.takeFreePins() == 119, "one of the 120 pins is taken")
    withExtendedLifetime(iterator) {}
    try await store.close()
    try await other.close()
  }
}

extension Store {
  /// Takes all free pins of the page, and returns their number.
  fileprivate func takeFreePins() -> Int {
    guard let page = engine?.log.link?.page else { return 0 }
    let now = SystemClock.monotonicNanoseconds()
    var count = 0
    // The owners of the stores are odd.
    while let pin = page.takePin(UInt64(2 * count + 2), now: now) {
      page.movePin(pin, to: .max, until: .max)
      count += 1
    }
    return count
  }
}
