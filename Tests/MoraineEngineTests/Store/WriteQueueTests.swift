import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Writes that wait in a queue until the store applies them.
@Suite(.timeLimit(.minutes(5))) struct WriteQueueTests {
  private static func configuration(
    _ durability: Durability = .none, segmentSizeBytes: Int = 100_000
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, durability: durability)
    configuration.compaction = .manual
    return configuration
  }

  /// A store that applies nothing until the gate is open: its first write creates it.
  private static func heldStore() throws -> (Store, FaultStorage, Gate) {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: configuration())
    let gate = Gate()
    storage.setScript { $0.operation == .createDirectory ? .hang(gate) : nil }
    return (store, storage, gate)
  }

  @Test func queueShowsItsWritesBeforeAndAfterTheStoreHasAppliedThem() async throws {
    let (store, storage, gate) = try Self.heldStore()
    let queue = try await store.writeQueue()
    let users = try queue.keyspace(store.keyspace(named: "users"))
    try await queue.set([1], forKey: "a")
    try await users.set([2], forKey: "a")
    try await queue.set([3], forKey: "a")
    try await queue.set([4], forKey: "b")
    try await queue.removeValue(forKey: "b")
    await gate.arrival()
    // The queue applies the writes so far; these wait.
    try await queue.set([5], forKey: "d")
    try await queue.removeValue(forKey: "e")
    for isApplied in [false, true] {
      if isApplied {
        gate.open()
        #expect(try await queue.flush() != nil)
        storage.setScript(nil)
        #expect(queue.pendingBytes == 0)
      } else {
        #expect(queue.pendingBytes > 5 * 256)
      }
      #expect(try queue.value(forKey: "a") == [3])
      #expect(try users.value(forKey: "a") == [2])
      #expect(try queue.value(forKey: "b") == nil)
      #expect(try queue.contains("a"))
      #expect(try !queue.contains("b"))
      #expect(try !users.contains("c"))
      #expect(try queue.value(forKey: "d") == [5])
      #expect(try queue.value(forKey: "e") == nil)
    }
    #expect(try await store.value(forKey: "a") == [3])
    #expect(try await store.keyspace(named: "users").value(forKey: "a") == [2])
    try await store.close()
  }

  @Test func fullQueueMakesItsWritersWaitAndTakesAnyWriteWhenItIsEmpty() async throws {
    let (store, _, gate) = try Self.heldStore()
    let queue = try await store.writeQueue(capacityBytes: 1000)
    let long = [UInt8](repeating: 1, count: 2000)
    #expect(try queue.trySet(long, forKey: "long"))
    #expect(try !queue.trySet([1], forKey: "a"))
    #expect(try !queue.tryRemoveValue(forKey: "a"))
    await gate.arrival()
    let cancelled = Task { try await queue.set([1], forKey: "cancelled") }
    cancelled.cancel()
    let waiting = Task { try await queue.set([1], forKey: "a") }
    let alsoLong = Task { try await queue.set(long, forKey: "also long") }
    gate.open()
    try await waiting.value
    try await alsoLong.value
    // The task may have seen its cancellation only after the queue had room.
    do { try await cancelled.value } catch { #expect((error as? StoreError)?.code == .cancelled) }
    try await queue.flush()
    #expect(try await store.value(forKey: "a") == [1])
    #expect(try await store.value(forKey: "also long") == long)
    try await store.close()
  }

  @Test func storeAppliesTheWritesOfAllKeyspacesInTheirOrder() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration())
    let queue = try await store.writeQueue(capacityBytes: 10_000)
    let names = ["", "one", "two"]
    var keyspaces: [Store.WriteQueue] = []
    for name in names { keyspaces.append(queue.keyspace(try store.keyspace(named: name))) }
    let changes = store.changes()
    var random = SeededGenerator(seed: 1)
    var expected: [String] = []
    for number in 0..<2000 {
      let place = Int(random.next() % 3)
      try await keyspaces[place].set([1], forKey: Key("\(number)"))
      expected.append("\(names[place]) \(number)")
    }
    try await queue.flush()
    var seen: [String] = []
    for try await change in changes {
      seen.append("\(change.keyspace) \(change.key)")
      if seen.count == expected.count { break }
    }
    #expect(seen == expected)
    try await store.close()
  }

  /// Several threads write, each to its own key, and read their own writes at once.
  @Test func eachThreadReadsItsLastWrite() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration())
    let queue = try await store.writeQueue(capacityBytes: 20_000)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<4 {
        group.addTask {
          let key = Key("\(task)")
          for number in 0..<5000 {
            if number % 7 == 6 {
              try await queue.removeValue(forKey: key)
              #expect(try queue.value(forKey: key) == nil)
            } else {
              let value = [UInt8](repeating: UInt8(number % 251), count: number % 50)
              try await queue.set(value, forKey: key)
              #expect(try queue.value(forKey: key) == value)
            }
            if number % 1000 == 0 { try await queue.flush() }
          }
        }
      }
      try await group.waitForAll()
    }
    try await queue.flush()
    for task in 0..<4 {
      #expect(try await store.value(forKey: Key("\(task)"))?.count == 4999 % 50)
    }
    try await store.close()
  }

  /// The writes before the one that fails are applied, it and all later ones are dropped.
  @Test(arguments: [true, false])
  func failedWriteIsReportedUntilAResetAndDropsTheLaterOnes(flushWaits: Bool) async throws {
    let disk = FaultStorage(MemoryStorage(capacityBytes: 1 << 20))
    let store = try Store(on: disk, at: "store", configuration: Self.configuration())
    try await store.set([0], forKey: "first")
    let gate = Gate()
    disk.setScript { $0.operation == .allocate ? .hang(gate) : nil }
    let queue = try await store.writeQueue(capacityBytes: 8 << 20)
    var random = SeededGenerator(seed: 1)
    let long = (0..<2 << 20).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    try await queue.set(long, forKey: "occupies the store")
    await gate.arrival()
    try await queue.set([1], forKey: "later")
    #expect(try queue.value(forKey: "later") == [1])
    let flush = flushWaits ? Task { try await queue.flush() } : nil
    if flushWaits { while queue.flushCount == 0 { await Task.yield() } }
    gate.open()
    disk.setScript(nil)
    if let flush {
      await #expect(throws: StoreError.self) { try await flush.value }
    } else {
      while queue.pendingBytes > 0 { await Task.yield() }
      for _ in 0..<2 {
        let error = await #expect(throws: StoreError.self) {
          try await queue.set([2], forKey: "refused")
        }
        #expect(error?.code == .noSpace)
      }
    }
    // Each task that uses the queue learns of the error, not only the first one that asks.
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) { try await queue.flush() }
      #expect(error?.code == .noSpace)
    }
    #expect(try queue.reset()?.code == .noSpace)
    #expect(try queue.value(forKey: "later") == nil)
    try await queue.set([3], forKey: "accepted")
    try await queue.flush()
    #expect(try await store.value(forKey: "accepted") == [3])
    #expect(try await store.value(forKey: "first") == [0])
    #expect(try await store.count() == 2)
    try await store.close()
  }

  /// Writes that were taken together are one batch; when it fails, they are applied one by one.
  @Test func writesBeforeTheOneThatFailsAreApplied() async throws {
    let (store, storage, gate) = try Self.heldStore()
    let queue = try await store.writeQueue(capacityBytes: 8 << 20)
    try await queue.set([0], forKey: "occupies the store")
    await gate.arrival()
    let ordered = try queue.keyspace(store.orderedKeyspace(named: "ordered"))
    try await queue.set([1], forKey: "before")
    // Ordered keyspaces take shorter keys, which only the store knows.
    let key = Key([UInt8](repeating: 1, count: StoreLimits.orderedKeyLengthBytes + 1))
    try await ordered.set([2], forKey: key)
    try await queue.set([3], forKey: "after")
    gate.open()
    storage.setScript(nil)
    let error = await #expect(throws: StoreError.self) { try await queue.flush() }
    #expect(error?.code == .keyTooLarge)
    #expect(try await store.value(forKey: "before") == [1])
    #expect(try await store.value(forKey: "after") == nil)
    try await store.close()
  }

  /// A write that the archive has not confirmed is in the store, and another task may have replaced
  /// it since.
  @Test func writesThatTheArchiveDoesNotConfirmAreNotAppliedAgain() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: Self.configuration(.replicated))
    let gate = Gate()
    storage.setScript { $0.operation == .createDirectory ? .hang(gate) : nil }
    let owner = ReplicationOwner()
    let wakes = Counter()
    store.beginReplication(owner) { wakes.increment() }
    let queue = try await store.writeQueue()
    try await queue.set([0], forKey: "first")
    await gate.arrival()
    // One batch, which the store applies when the archive has the first write.
    try await queue.set([1], forKey: "replaced")
    try await queue.set([1], forKey: "removed")
    try await queue.removeValue(forKey: "first")
    gate.open()
    storage.setScript(nil)
    while wakes.count < 1 { await Task.yield() }
    store.replicated(owner, through: SequenceNumber(rawValue: 1))
    while wakes.count < 2 { await Task.yield() }
    let flush = Task { try await queue.flush() }
    while queue.flushCount == 0 { await Task.yield() }
    #expect(try await store.count() == 2)
    try await store.set([2], forKey: "replaced", durability: Durability.none)
    try await store.removeValue(forKey: "removed", durability: Durability.none)
    try await store.set([2], forKey: "first", durability: Durability.none)
    // Waits in the queue while the first writes wait for the archive.
    try await queue.set([3], forKey: "later")
    store.replicationFailed(
      owner, StoreError(.archiveUnavailable, "the archive is away"), isLast: false)
    let error = await #expect(throws: StoreError.self) { try await flush.value }
    #expect(error?.code == .archiveUnavailable)
    while queue.pendingBytes > 0 { await Task.yield() }
    #expect(try await store.value(forKey: "replaced") == [2])
    #expect(try await store.value(forKey: "removed") == nil)
    #expect(try await store.value(forKey: "first") == [2])
    #expect(try await store.value(forKey: "later") == [3])
    await #expect(throws: StoreError.self) { try await queue.set([4], forKey: "refused") }
    #expect(try queue.reset()?.code == .archiveUnavailable)
    store.replicated(owner, through: SequenceNumber(rawValue: .max))
    try await queue.set([5], forKey: "replaced")
    try await queue.flush()
    #expect(try await store.value(forKey: "replaced") == [5])
    try await store.close()
  }

  private final class Counter: Sendable {
    private let value = Atomic<Int>(0)
    var count: Int { value.load(ordering: .relaxed) }
    func increment() { value.add(1, ordering: .relaxed) }
  }

  /// Also when the program has released the queue.
  @Test(arguments: [true, false])
  func closingAndSuspendingReportDroppedWrites(suspends: Bool) async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration())
    try await store.set([0], forKey: "first")
    var queue: Store.WriteQueue? = try await store.writeQueue()
    let ordered = try queue?.keyspace(store.orderedKeyspace(named: "ordered"))
    let key = Key([UInt8](repeating: 1, count: StoreLimits.orderedKeyLengthBytes + 1))
    try await ordered?.set([1], forKey: key)
    if !suspends { queue = nil }
    let error = await #expect(throws: StoreError.self) {
      if suspends { try await store.suspend() } else { try await store.close() }
    }
    #expect(error?.code == .keyTooLarge)
    if suspends {
      try await store.resume()
      let again = await #expect(throws: StoreError.self) { try await queue?.flush() }
      #expect(again?.code == .keyTooLarge)
    }
    // The error was thrown already.
    try await store.close()
  }

  @Test func suspendedStoreRefusesWritesAndTakesThemAfterResuming() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration())
    let queue = try await store.writeQueue()
    try await queue.set([1], forKey: "a")
    try await store.suspend()
    let error = #expect(throws: StoreError.self) { try queue.trySet([1], forKey: "b") }
    #expect(error?.code == .suspended)
    try await store.resume()
    #expect(try queue.trySet([1], forKey: "c"))
    try await queue.flush()
    #expect(try await store.count() == 2)
    try await store.close()
  }

  /// While close() or suspend() applies the queues that it has found.
  @Test func newQueueOfAStoreThatIsEndingRefusesWrites() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration())
    await store.stopQueues()
    let queue = try await store.writeQueue()
    let error = #expect(throws: StoreError.self) { try queue.trySet([1], forKey: "a") }
    #expect(error?.code == .suspended)
    // Nothing was written, so the store does not exist on the disk.
    #expect(try await queue.flush(durability: .sync) == nil)
    try await store.close()
  }

  @Test func cancelledTaskQueuesNothingAndStopsWaiting() async throws {
    let (store, storage, gate) = try Self.heldStore()
    let queue = try await store.writeQueue(capacityBytes: 1000)
    #expect(try queue.trySet([UInt8](repeating: 1, count: 2000), forKey: "long"))
    await gate.arrival()
    let waiting = Task { try await queue.set([1], forKey: "cancelled") }
    while queue.writerCount == 0 { await Task.yield() }
    waiting.cancel()
    // The store is still held: only the cancellation ends the wait.
    let error = await #expect(throws: StoreError.self) { try await waiting.value }
    #expect(error?.code == .cancelled)
    gate.open()
    storage.setScript(nil)
    try await queue.flush()
    #expect(try await store.value(forKey: "cancelled") == nil)
    try await store.close()
  }

  @Test func openingWaitsWhileClosingAppliesQueuedWrites() async throws {
    let ground = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let configuration = Self.configuration()
    let store = try Store(on: storage, at: ground.path, configuration: configuration)
    try await store.set([0], forKey: "first")
    let gate = Gate()
    storage.setScript { $0.operation == .createFile ? .hang(gate) : nil }
    let queue = try await store.writeQueue(capacityBytes: 8 << 20)
    var random = SeededGenerator(seed: 1)
    let long = (0..<200_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    try await queue.set(long, forKey: "occupies the store")
    await gate.arrival()
    let closing = Task { try await store.close() }
    let identity = try #require(store.observers.phase.directory)
    while StorePhase.holder(of: identity) != .leaving { await Task.yield() }
    let opening = Task.detached { [path = ground.path] in
      try await Store.open(at: path, configuration: configuration)
    }
    gate.open()
    storage.setScript(nil)
    try await closing.value
    let next = try await opening.value
    #expect(try await next.count() == 2)
    try await next.close()
  }

  /// The removal writes nothing, but an earlier removal may not be durable.
  @Test func flushMakesTheAbsenceOfKeysDurable() async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: Self.configuration())
    try await store.set([1], forKey: "a", durability: .sync)
    try await store.removeValue(forKey: "a", durability: Durability.none)
    let queue = try await store.writeQueue()
    try await queue.removeValue(forKey: "a")
    try await queue.flush(durability: .sync)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(
      configuration: Self.configuration())
    #expect(try await after.count() == 0)
    try await after.close()
    try await store.close()
  }

  @Test func closingAndSuspendingApplyWhatWaits() async throws {
    let memory = MemoryStorage()
    let store = try Store(on: memory, at: "store", configuration: Self.configuration())
    let queue = try await store.writeQueue()
    for number in 0..<100 { try await queue.set([1], forKey: Key("\(number)")) }
    try await store.suspend()
    try await store.resume()
    #expect(try await store.count() == 100)
    for number in 100..<200 { try await queue.set([1], forKey: Key("\(number)")) }
    try await store.close()
    let error = #expect(throws: StoreError.self) { try queue.trySet([1], forKey: "late") }
    #expect(error?.code == .closed)
    let again = try Store(on: memory, at: "store", configuration: Self.configuration())
    #expect(try await again.count() == 200)
    try await again.close()
  }

  /// The image of the disk has only what was synced.
  @Test(arguments: [nil, Durability.sync])
  func flushedWritesSurviveAPowerFailure(durability: Durability?) async throws {
    let disk = SimulatedDisk()
    // Without an argument, the configuration decides.
    let configuration = Self.configuration(durability == nil ? .sync : .none)
    let store = try disk.openStore(configuration: configuration)
    let queue = try await store.writeQueue()
    for number in 0..<50 { try await queue.set([1], forKey: Key("\(number)")) }
    try await queue.flush(durability: durability)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: configuration)
    #expect(try await after.count() == 50)
    try await after.close()
    try await store.close()
  }

  /// A lifetime is counted from the call, however long the write waits.
  /// The store has seen a later time, which a clock that was set back does not undo.
  @Test func queuedLifetimeCountsFromTheTimeOfTheStore() async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Self.configuration()
    configuration.clock = clock
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let queue = try await store.writeQueue()
    clock.set(toMilliseconds: 2_000_000)
    try await store.set([1], forKey: "x", expiring: .after(.seconds(1)))
    #expect(try await store.value(forKey: "x") == [1])
    clock.set(toMilliseconds: 1_000_000)
    try await queue.set([1], forKey: "k", expiring: .after(.seconds(60)))
    #expect(try queue.trySet([2], forKey: "l", expiring: .after(.seconds(60))))
    try await queue.flush()
    #expect(try await store.value(forKey: "k") == [1])
    #expect(try await store.value(forKey: "l") == [2])
    #expect(try await store.expiry(forKey: "k") == .at(milliseconds: 2_060_000))
    try await store.close()
  }

  @Test func queuedEntryEndsAtItsExpiry() async throws {
    let storage = FaultStorage(MemoryStorage())
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Self.configuration()
    configuration.clock = clock
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let gate = Gate()
    storage.setScript { $0.operation == .createDirectory ? .hang(gate) : nil }
    let queue = try await store.writeQueue()
    let brief = try queue.keyspace(
      store.keyspace(named: "brief", defaultLifetime: .seconds(5)))
    try await queue.set([1], forKey: "a", expiring: .after(.seconds(5)))
    #expect(try queue.trySet([2], forKey: "b", expiring: .at(milliseconds: 1_007_000)))
    try await queue.set([3], forKey: "c")
    try await brief.set([4], forKey: "d")
    #expect(try brief.trySet([5], forKey: "e", expiring: .never))
    clock.advance(by: .seconds(3))
    await gate.arrival()
    gate.open()
    try await queue.flush()
    #expect(try await store.expiry(forKey: "a") == .at(milliseconds: 1_005_000))
    #expect(try await store.expiry(forKey: "b") == .at(milliseconds: 1_007_000))
    #expect(try await store.expiry(forKey: "c") == .never)
    let keyspace = try store.keyspace(named: "brief")
    #expect(try await keyspace.expiry(forKey: "d") == .at(milliseconds: 1_005_000))
    #expect(try await keyspace.expiry(forKey: "e") == .never)
    clock.advance(by: .seconds(2))
    #expect(try queue.value(forKey: "a") == nil)
    #expect(try queue.value(forKey: "b") == [2])
    #expect(try brief.value(forKey: "d") == nil)
    try await store.close()
  }

  /// The entry ends while a write waits that keeps its expiry.
  @Test func queuedEntryEndsWithTheEntryThatItReplaces() async throws {
    let storage = FaultStorage(MemoryStorage())
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Self.configuration()
    configuration.clock = clock
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let gate = Gate()
    storage.setScript { $0.operation == .createDirectory ? .hang(gate) : nil }
    let queue = try await store.writeQueue()
    for key in ["a", "b"] as [Key] {
      try await queue.set([1], forKey: key, expiring: .at(milliseconds: 1_002_000))
    }
    try await queue.set([2], forKey: "a", expiring: .unchanged)
    clock.advance(by: .seconds(3))
    // This write finds no entry that it replaces.
    try await queue.set([2], forKey: "b", expiring: .unchanged)
    await gate.arrival()
    gate.open()
    try await queue.flush()
    #expect(try await store.value(forKey: "a") == nil)
    #expect(try await store.value(forKey: "b") == [2])
    #expect(try await store.expiry(forKey: "b") == .never)
    try await store.close()
  }

  /// The memory of a waiting write includes its values for indexes.
  @Test func rowsOfIndexesCountForTheCapacity() async throws {
    let (store, storage, gate) = try Self.heldStore()
    let queue = try await store.writeQueue(capacityBytes: 100_000)
    try await queue.set([1], forKey: "a")
    await gate.arrival()
    let before = queue.pendingBytes
    let values = (0..<100).map { _ in
      IndexRow.Value([UInt8](repeating: 1, count: 100), isUnique: false)
    }
    let row = IndexRow([IndexRow.Part(index: 1, values: values)])
    #expect(try queue.add(KeyspaceOperation(key: "b", value: [1], row: row)))
    #expect(queue.pendingBytes > before + 100 * 100)
    gate.open()
    try await queue.flush()
    storage.setScript(nil)
    try await store.close()
  }

  @Test func queueRefusesWhatNoStoreTakes() async throws {
    let memory = MemoryStorage()
    let store = try Store(on: memory, at: "store", configuration: Self.configuration())
    let queue = try await store.writeQueue()
    let key = Key([UInt8](repeating: 1, count: StoreLimits.keyLengthBytes + 1))
    let error = #expect(throws: StoreError.self) { try queue.trySet([1], forKey: key) }
    #expect(error?.code == .keyTooLarge)
    try await store.set([1], forKey: "a")
    try await store.close()
    var configuration = Self.configuration()
    configuration.isReadOnly = true
    let reader = try Store(on: memory, at: "store", configuration: configuration)
    let refusing = try await reader.writeQueue()
    #expect(try refusing.value(forKey: "a") == [1])
    let refusal = #expect(throws: StoreError.self) { try refusing.trySet([1], forKey: "a") }
    #expect(refusal?.code == .readOnly)
    try await reader.close()
  }
}

extension Store {
  fileprivate func stopQueues() { _ = writing.stopQueues(.ofSuspendedStore) }
}
