import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Entries that expire: no read returns them from their time on, and the store deletes them later.
@Suite(.timeLimit(.minutes(10))) struct ExpiryTests {
  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private let clock = ManualClock(startingAt: 1_000_000)

  private func configuration(
    _ mode: Store.Configuration.IOMode = .mapped, grace: Duration = .seconds(60)
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4096, ioMode: mode)
    configuration.clock = clock
    configuration.expiryGrace = grace
    // The tests call the reaper themselves, unless they say something else.
    configuration.reapInterval = .seconds(1_000_000)
    return configuration
  }

  /// Returns whether each kind of read finds a key, in the order of the names in the test.
  private func answers(_ store: Store, _ keyspace: Keyspace, _ key: Key) async throws -> [Bool] {
    let snapshot = try await store.snapshot().keyspace(named: keyspace.name)
    var scanned = false
    try await keyspace.scan {
      if $0.key == key { scanned = true }
      return true
    }
    var read = false
    _ = try await store.write { batch in
      read = try batch.value(forKey: key, in: keyspace) != nil
    }
    let inTransaction = try await store.transaction { transaction in
      try transaction.contains(key, in: keyspace)
    }
    return [
      try await keyspace.value(forKey: key) != nil, try await keyspace.contains(key),
      try await keyspace.versionedValue(forKey: key) != nil,
      try await keyspace.expiry(forKey: key) != nil,
      try await keyspace.withValue(forKey: key) { _ in true } ?? false,
      try snapshot.value(forKey: key) != nil, try snapshot.contains(key),
      try snapshot.values(forKeys: [key])[0] != nil, scanned, read, inTransaction,
      try await keyspace.count() == 1, try await store.count() == 1,
    ]
  }

  /// An error of reading must not hide that entries have expired: they would return in snapshots.
  @Test func entriesStayExpiredAfterTheReaperCouldNotReadOne() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: configuration(.positional))
    try await store.set([0], forKey: "stays")
    for key in ["a", "b", "c"] as [Key] {
      try await store.set([1], forKey: key, expiring: .after(.seconds(5)))
    }
    clock.advance(by: .seconds(100))
    let reads = ReadCount()
    storage.setScript { event in
      guard event.operation == .read, event.file.hasSuffix(".segment") else { return nil }
      return reads.next() == 2 ? .fail(.ioError) : nil
    }
    await #expect(throws: StoreError.self) { try await store.removeExpired() }
    #expect(reads.value >= 2)
    storage.setScript(nil)
    #expect(try await store.count() == 1)
    let snapshot = try await store.snapshot()
    for key in ["a", "b", "c"] as [Key] { #expect(try snapshot.value(forKey: key) == nil) }
    #expect(try await store.removeExpired() == 3)
    #expect(try await store.statistics().count == 1)
    #expect(try await store.snapshot().value(forKey: "a") == nil)
    try await store.close()
  }

  private final class ReadCount: Sendable {
    private let count = Mutex(0)
    var value: Int { count.withLock { $0 } }
    func next() -> Int {
      count.withLock { count in
        count += 1
        return count
      }
    }
  }

  @Test(arguments: [false, true])
  func unchangedExpiryIsThatOfTheEntryThatIsReplaced(isOrdered: Bool) async throws {
    let store = Store.inMemory(configuration: configuration())
    let keyspace =
      isOrdered ? try store.orderedKeyspace(named: "k") : try store.keyspace(named: "k")
    try await keyspace.set([1], forKey: "a", expiring: .after(.seconds(5)))
    clock.advance(by: .seconds(2))
    try await keyspace.set([2], forKey: "a", expiring: .unchanged)
    let value = try #require(try await keyspace.versionedValue(forKey: "a"))
    #expect(value.value == [2])
    #expect(value.expiry == .at(milliseconds: 1_005_000))
    let snapshot = try await store.snapshot().keyspace(named: "k")
    #expect(try snapshot.versionedValue(forKey: "a") == value)
    try await store.write { batch in
      try batch.set([3], forKey: "a", in: keyspace, expiring: .unchanged)
      try batch.set([1], forKey: "b", in: keyspace, expiring: .after(.seconds(9)))
      try batch.set([2], forKey: "b", in: keyspace, expiring: .unchanged)
      try batch.set([1], forKey: "new", in: keyspace, expiring: .unchanged)
    }
    #expect(try await keyspace.expiry(forKey: "a") == .at(milliseconds: 1_005_000))
    #expect(try await keyspace.expiry(forKey: "b") == .at(milliseconds: 1_011_000))
    #expect(try await keyspace.expiry(forKey: "new") == .never)
    try await store.transaction { transaction in
      try transaction.set([4], forKey: "a", in: keyspace, expiring: .unchanged)
    }
    let next = try #require(try await keyspace.versionedValue(forKey: "a"))
    #expect(next.expiry == .at(milliseconds: 1_005_000))
    let sequence = try await keyspace.set(
      [5], forKey: "a", if: .sequence(next.sequence), expiring: .unchanged)
    #expect(sequence != nil)
    try await store.transaction { transaction in
      try transaction.set([1], forKey: "t", in: keyspace, expiring: .after(.seconds(1)))
      try transaction.set([2], forKey: "t", in: keyspace, expiring: .unchanged)
      try transaction.set([1], forKey: "u", in: keyspace, expiring: .after(.seconds(1)))
      try transaction.removeValue(forKey: "u", in: keyspace)
      try transaction.set([2], forKey: "u", in: keyspace, expiring: .unchanged)
    }
    #expect(try await keyspace.expiry(forKey: "t") == .at(milliseconds: 1_003_000))
    #expect(try await keyspace.expiry(forKey: "u") == .never)
    // The entry that has ended is none that is replaced.
    clock.advance(by: .seconds(3))
    #expect(try await keyspace.value(forKey: "a") == nil)
    try await keyspace.set([6], forKey: "a", expiring: .unchanged)
    #expect(try await keyspace.versionedValue(forKey: "a")?.expiry == .never)
    try await store.set([1], forKey: "c", expiring: .at(milliseconds: 2_000_000))
    try await store.set([2], forKey: "c", expiring: .unchanged)
    #expect(try await store.expiry(forKey: "c") == .at(milliseconds: 2_000_000))
  }

  /// The clock passes the end of an entry while a batch is made.
  @Test(arguments: [false, true])
  func unchangedExpiryOfABatchIsThatOfItsBeginning(hasEnded: Bool) async throws {
    let store = Store.inMemory(configuration: configuration())
    try await store.set([1], forKey: "session", expiring: .after(.seconds(5)))
    let clock = clock
    if hasEnded { clock.advance(by: .seconds(6)) }
    try await store.write { batch in
      #expect(try batch.contains("session") == !hasEnded)
      clock.advance(by: .seconds(6))
      try batch.set([2], forKey: "session", expiring: .unchanged)
      try batch.set([3], forKey: "session", expiring: .unchanged)
    }
    // An entry that had ended before is no entry that is replaced.
    #expect(try await store.value(forKey: "session") == (hasEnded ? [3] : nil))
  }

  private func orderedAnswers(
    _ store: Store, _ keyspace: Keyspace, _ key: Key
  ) async throws
    -> [Bool]
  {
    let snapshot = try await store.snapshot().keyspace(named: keyspace.name)
    var (scanned, spans, keys) = (false, false, false)
    try snapshot.scan(in: .all) { _ in
      scanned = true; return true
    }
    try snapshot.scanSpans(in: .all) { _, _ in
      spans = true; return true
    }
    try snapshot.scanKeys(in: .all) { _ in
      keys = true; return true
    }
    var cursor = try snapshot.cursor()
    let next = try cursor.next() != nil
    cursor.seekToEnd()
    let previous = try cursor.previous() != nil
    return [
      try await !keyspace.entries(limit: 10).entries.isEmpty,
      try await !keyspace.keys(limit: 10).isEmpty, try await keyspace.first() != nil,
      try await keyspace.last() != nil, try await keyspace.count(in: .all) == 1,
      try snapshot.count(in: .all) == 1, try snapshot.first() != nil, scanned, spans, keys, next,
      previous,
    ]
  }

  @Test(arguments: modes, [false, true])
  func readsEndInTheMillisecondOfTheExpiry(
    mode: Store.Configuration.IOMode, isOrdered: Bool
  ) async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration(mode))
    let keyspace =
      try isOrdered ? store.orderedKeyspace(named: "k") : store.keyspace(named: "k")
    try await keyspace.set([7], forKey: "key", expiring: .at(milliseconds: 1_000_500))
    #expect(try await keyspace.expiry(forKey: "key") == .at(milliseconds: 1_000_500))
    for (time, isThere) in [(1_000_000, true), (1_000_499, true), (1_000_500, false)] {
      clock.advance(toMilliseconds: UInt64(time))
      let answers = try await answers(store, keyspace, "key")
      #expect(answers.allSatisfy { $0 == isThere }, "at \(time): \(answers)")
      guard isOrdered else { continue }
      let ordered = try await orderedAnswers(store, keyspace, "key")
      #expect(ordered.allSatisfy { $0 == isThere }, "at \(time): \(ordered)")
    }
    try await store.close()
  }

  @Test func snapshotKeepsItsMomentOfTime() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    try await store.set([7], forKey: "key", expiring: .after(.seconds(1)))
    let before = try await store.snapshot()
    clock.advance(by: .seconds(1))
    #expect(try before.value(forKey: "key") == [7])
    let after = try await store.snapshot()
    #expect(try after.value(forKey: "key") == nil, "a later snapshot has another moment")
    #expect(!after.isSame(as: before))
    try await store.close()
  }

  @Test func expiredKeyIsAbsentForConditionsAndDeletes() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    let first = try await store.set([7], forKey: "key", expiring: .after(.seconds(1)))
    clock.advance(by: .seconds(1))
    #expect(try await store.removeValue(forKey: "key") == nil)
    #expect(try await store.set([8], forKey: "key", if: .sequence(first)) == nil)
    #expect(try await store.set([8], forKey: "key", if: .value([7])) == nil)
    #expect(
      try await store.set([8], forKey: "key", if: .absent, expiring: .after(.seconds(5))) != nil)
    #expect(try await store.value(forKey: "key") == [8])
    try await store.set([9], forKey: "key")
    #expect(try await store.expiry(forKey: "key") == .never, "a plain set makes an entry stay")
    clock.advance(by: .seconds(100))
    #expect(try await store.value(forKey: "key") == [9])
    #expect(try await store.removeExpired() == 0)
    try await store.close()
  }

  @Test(arguments: [false, true])
  func timeThatPassesIsNoConflict(isOrdered: Bool) async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    let keyspace =
      try isOrdered ? store.orderedKeyspace(named: "k") : store.keyspace(named: "k")
    try await keyspace.set([1], forKey: "old", expiring: .after(.seconds(1)))
    try await keyspace.set([1], forKey: "key", expiring: .after(.seconds(2)))
    clock.advance(by: .seconds(1))
    try await store.transaction(retries: 0) { [clock] transaction in
      #expect(try transaction.value(forKey: "old", in: keyspace) == nil)
      #expect(try transaction.value(forKey: "key", in: keyspace) == [1])
      #expect(try transaction.allEntries(of: keyspace).count == 1)
      if isOrdered { #expect(try transaction.count(of: keyspace) == 1) }
      clock.advance(by: .seconds(5))
      try await store.set([1], forKey: "another write")
      try transaction.set([2], forKey: "result", in: keyspace, expiring: .after(.seconds(1)))
    }
    #expect(try await keyspace.value(forKey: "result") == [2])
    clock.advance(by: .seconds(1))
    #expect(try await keyspace.value(forKey: "result") == nil)
    try await store.close()
  }

  /// An entry that was hidden at the beginning exists again, or another one is there in its place.
  @Test(arguments: [false, true])
  func keysThatAppearInPlaceOfExpiredKeysAreConflicts(isOrdered: Bool) async throws {
    for isReaped in [false, true] {
      let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
      let keyspace =
        try isOrdered ? store.orderedKeyspace(named: "k") : store.keyspace(named: "k")
      try await keyspace.set([1], forKey: "hidden", expiring: .after(.seconds(1)))
      try await keyspace.set([1], forKey: "key")
      clock.advance(by: .seconds(1))
      let error = await #expect(throws: StoreError.self) {
        try await store.transaction(retries: 0) { [clock] transaction in
          #expect(try transaction.allEntries(of: keyspace).count == 1)
          if isReaped {
            clock.advance(by: .seconds(100))
            #expect(try await store.removeExpired() == 1)
            try await keyspace.set([2], forKey: "other")
          } else {
            try await keyspace.set([2], forKey: "hidden")
          }
          try transaction.set([2], forKey: "result", in: keyspace)
        }
      }
      #expect(error?.code == .conflict, "the hidden key was reaped: \(isReaped)")
      try await store.close()
    }
  }

  @Test(arguments: [false, true])
  func reapingIsNoConflict(isOrdered: Bool) async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    let keyspace =
      try isOrdered ? store.orderedKeyspace(named: "k") : store.keyspace(named: "k")
    try await keyspace.set([1], forKey: "hidden", expiring: .after(.seconds(1)))
    try await keyspace.set([1], forKey: "key")
    clock.advance(by: .seconds(1))
    try await store.transaction(retries: 0) { [clock] transaction in
      #expect(try transaction.allEntries(of: keyspace).count == 1)
      if isOrdered { #expect(try transaction.entries(of: keyspace).count == 1) }
      clock.advance(by: .seconds(100))
      #expect(try await store.removeExpired() == 1)
      try transaction.set([2], forKey: "result", in: keyspace)
    }
    #expect(try await keyspace.value(forKey: "result") == [2])
    try await store.close()
  }

  /// An ordered keyspace reports the damage instead: its tree compares with verified keys only.
  @Test func deleteRemovesADamagedEntryThatLooksExpired() async throws {
    let storage = MemoryStorage()
    var configuration = configuration()
    configuration.ordersKeyspaces = false
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1, 2, 3], forKey: "key", expiring: .after(.seconds(100)))
    let directory = try #require(try storage.openDirectory("store"))
    let file = try #require(try directory.openFile("0000000001.segment", .readWrite))
    let past = [UInt8]([1, 0, 0, 0, 0, 0, 0, 0])
    try past.withUnsafeBytes { try file.write($0, at: 128 + 20) }
    #expect(try await store.removeValue(forKey: "key") != nil)
    #expect(try await store.value(forKey: "key") == nil)
    try await store.close()
  }

  @Test(arguments: modes, [false, true])
  func reaperDeletesWhatExpiredAndNothingElse(
    mode: Store.Configuration.IOMode, isOrdered: Bool
  ) async throws {
    let storage = MemoryStorage()
    let configuration = configuration(mode)
    var store = try Store(on: storage, at: "store", configuration: configuration)
    var generator = SeededGenerator(seed: 11)
    var model: [Key: (value: [UInt8], expiry: UInt64)] = [:]
    for round in 0..<12 {
      let keyspace =
        try isOrdered ? store.orderedKeyspace(named: "k") : store.keyspace(named: "k")
      for _ in 0..<200 {
        let key = Key("key-\(Int.random(in: 0..<300, using: &generator))")
        let value = [UInt8](
          repeating: UInt8(round), count: Int.random(in: 0..<60, using: &generator))
        switch Int.random(in: 0..<4, using: &generator) {
        case 0:
          try await keyspace.set(value, forKey: key)
          model[key] = (value, .max)
        case 1:
          let isThere = model[key].map { $0.expiry > clock.milliseconds } ?? false
          #expect(try await (keyspace.removeValue(forKey: key) != nil) == isThere)
          if isThere { model[key] = nil }
        default:
          let expiry = clock.milliseconds + UInt64.random(in: 1...200_000, using: &generator)
          try await keyspace.set(value, forKey: key, expiring: .at(milliseconds: expiry))
          model[key] = (value, expiry)
        }
      }
      clock.advance(by: .milliseconds(Int.random(in: 0..<60_000, using: &generator)))
      let now = clock.milliseconds
      model = model.filter { $0.value.expiry > now - 60_000 }
      if round % 3 == 1 { try await store.compact() }
      if round % 3 == 2 {
        try await store.close()
        store = try Store(on: storage, at: "store", configuration: configuration)
      }
      let reopened =
        try isOrdered ? store.orderedKeyspace(named: "k") : store.keyspace(named: "k")
      try await store.removeExpired()
      let visible = model.filter { $0.value.expiry > now }
      #expect(try await reopened.count() == visible.count, "round \(round)")
      #expect(
        try await store.statistics().count == model.count,
        "round \(round): entries stay until the grace has passed, and no longer")
      for (key, entry) in visible { #expect(try await reopened.value(forKey: key) == entry.value) }
      #expect(try await store.verify().isSound)
    }
    try await store.close()
  }

  @Test func entriesOfABatchOverBothKindsOfKeyspaceExpire() async throws {
    let store = Store.inMemory(configuration: configuration())
    let keyspaces = [
      try store.keyspace(named: "hashed"), try store.orderedKeyspace(named: "ordered"),
    ]
    try await store.write { batch in
      for keyspace in keyspaces {
        try batch.set([1], forKey: "ends", in: keyspace, expiring: .after(.seconds(1)))
        try batch.set([2], forKey: "stays", in: keyspace)
      }
    }
    clock.advance(by: .seconds(1))
    for keyspace in keyspaces { #expect(try await keyspace.count() == 1, "\(keyspace.name)") }
    clock.advance(by: .seconds(60))
    try await store.removeExpired()
    #expect(try await store.statistics().count == 2)
    try await store.close()
  }

  @Test func backgroundDeletesAfterTheGraceWithAnEvent() async throws {
    let log = EventLog()
    var configuration = configuration()
    configuration.reapInterval = .seconds(1)
    configuration.onEvent = log.add
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([1], forKey: "key", expiring: .after(.seconds(10)))
    try await store.set([1], forKey: "stays")
    while clock.sleeperCount == 0 { await Task.yield() }
    clock.advance(by: .seconds(69))
    #expect(try await store.statistics().count == 2)
    clock.advance(by: .seconds(1))
    await log.arrival(of: "entriesExpired")
    #expect(try await store.statistics().count == 1)
    try await store.close()
    #expect(clock.sleeperCount == 0, "a closed store waits for no expiry")
  }

  @Test func openingBeginsToWaitForTheNextExpiry() async throws {
    let storage = MemoryStorage()
    var configuration = configuration()
    configuration.reapInterval = .seconds(1)
    configuration.checkpointFloorBytes = 0
    let first = try Store(on: storage, at: "store", configuration: configuration)
    try await first.set([1], forKey: "key", expiring: .after(.seconds(10)))
    try await first.close()
    let log = EventLog()
    configuration.onEvent = log.add
    let store = try Store(on: storage, at: "store", configuration: configuration)
    while clock.sleeperCount == 0 { await Task.yield() }
    clock.advance(by: .seconds(70))
    await log.arrival(of: "entriesExpired")
    #expect(try await store.statistics().count == 0)
    try await store.close()
  }

  @Test func clockThatIsSetForwardDeletesNothingForTheGrace() async throws {
    let log = EventLog()
    var configuration = configuration()
    configuration.onEvent = log.add
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "key", expiring: .after(.seconds(10)))
    clock.set(toMilliseconds: 1_000_000_000)
    #expect(try await store.value(forKey: "key") == nil)
    #expect(try await store.removeExpired() == 0)
    await log.arrival(of: "clockJumped")
    clock.set(toMilliseconds: 1_000_001)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: self.configuration())
    #expect(try await again.value(forKey: "key") == [1], "the clock was corrected in time")
    try await again.close()
  }

  @Test func hiddenEntryDoesNotComeBackWhenTheClockIsSetBack() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    try await store.set([1], forKey: "key", expiring: .after(.seconds(10)))
    clock.advance(by: .seconds(10))
    #expect(try await store.value(forKey: "key") == nil)
    clock.set(toMilliseconds: 1_000_000)
    #expect(try await store.value(forKey: "key") == nil)
    try await store.close()
  }

  @Test func feedContainsTheDeleteWhenItIsWritten() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    try await store.set([1], forKey: "key", expiring: .after(.seconds(1)))
    clock.advance(by: .seconds(61))
    #expect(try await store.removeExpired() == 1)
    var changes: [[UInt8]?] = []
    for try await change in store.changes(after: .none) {
      changes.append(change.value)
      if changes.count == 2 { break }
    }
    #expect(changes == [[1], nil])
    try await store.close()
  }

  @Test func waitingValueSequenceShowsAnExpiryWithTheNextChangeOfTheStore() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration())
    try await store.set([1], forKey: "key", expiring: .after(.seconds(1)))
    let values = Task {
      var found: [[UInt8]?] = []
      for try await value in store.values(forKey: "key") {
        found.append(value)
        if found.count == 2 { break }
      }
      return found
    }
    while await store.watcherCount == 0 { await Task.yield() }
    clock.advance(by: .seconds(1))
    #expect(try await store.value(forKey: "key") == nil)
    #expect(await store.watcherCount == 1, "the clock wakes no sequence")
    try await store.set([2], forKey: "other")
    #expect(try await values.value == [[1], nil])
    // A sequence that does not wait looks at the store with each call.
    try await store.set([3], forKey: "key", expiring: .after(.seconds(1)))
    var later = store.values(forKey: "key").makeAsyncIterator()
    #expect(try await later.next() == .some([3]))
    clock.advance(by: .seconds(1))
    #expect(try await later.next() == .some(nil))
    try await store.close()
  }

  @Test(arguments: modes)
  func damagedRecordDoesNotReadAsExpired(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: configuration(mode))
    try await store.set([1, 2, 3], forKey: "key", expiring: .after(.seconds(100)))
    // The expiry follows the fixed part of the first record.
    let directory = try #require(try storage.openDirectory("store"))
    let file = try #require(try directory.openFile("0000000001.segment", .readWrite))
    let past = [UInt8]([1, 0, 0, 0, 0, 0, 0, 0])
    try past.withUnsafeBytes { try file.write($0, at: 128 + 20) }
    await #expect(throws: StoreError.self) { try await store.value(forKey: "key") }
    await #expect(throws: StoreError.self) { try await store.contains("key") }
    let snapshot = try await store.snapshot()
    #expect(throws: StoreError.self) { try snapshot.value(forKey: "key") }
    try await store.close()
  }
}
