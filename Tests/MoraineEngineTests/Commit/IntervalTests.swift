import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@Suite struct IntervalTests {
  /// Counts the syncs of segments, and wakes the test that waits for one.
  private final class Watch: Sendable {
    let (syncs, continuation) = AsyncStream.makeStream(of: StorageEvent.self)

    func judge(_ event: StorageEvent) -> StorageFault? {
      if event.operation == .synchronizeData { continuation.yield(event) }
      return nil
    }
  }

  @Test func watermarkAdvancesWithoutAWaitingWriter() async throws {
    let watch = Watch()
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { watch.judge($0) }
    let store = try Store(
      on: storage, at: "store",
      configuration: .testing(durability: .interval(.milliseconds(1))))
    let first = try await store.set([1], forKey: "a")
    for await _ in watch.syncs {
      // The event comes before the sync has ended; the next write causes the next event.
      if store.durableSequence >= first { break }
      try await store.set([2], forKey: "b")
    }
    #expect(store.durableSequence >= first)
    #expect(store.durableSequence <= (try await store.lastSequence()))
    try await store.close()
  }

  /// Regression: a sync that was due within an hour suppressed a sync that was requested within a
  /// millisecond.
  @Test(.timeLimit(.minutes(10))) func aShorterIntervalIsNotIgnored() async throws {
    let watch = Watch()
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { watch.judge($0) }
    let store = try Store(
      on: storage, at: "store", configuration: .testing(durability: .interval(.seconds(3600))))
    try await store.set([1], forKey: "lazy")
    try await store.set([2], forKey: "urgent", durability: .interval(.milliseconds(1)))
    for await _ in watch.syncs { break }
    try await store.close()
  }

  /// Regression: the promise "within an interval" ended with the last reference to the store.
  @Test func releasedStoreStillSyncs() async throws {
    let watch = Watch()
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { watch.judge($0) }
    do {
      let store = try Store(
        on: storage, at: "store", configuration: .testing(durability: .interval(.seconds(3000))))
      try await store.set([1], forKey: "a")
    }
    for await event in watch.syncs {
      #expect(event.file == "0000000001.segment")
      break
    }
  }

  /// P3: the watermark covers the bytes that were appended before the sync began.
  @Test func watermarkExcludesBytesAppendedDuringTheSync() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    let gate = Gate()
    let count = Mutex(0)
    let second = Gate()
    storage.setScript { event in
      guard event.operation == .synchronizeData else { return nil }
      return .hang(
        count.withLock { count in
          count += 1
          return count == 1 ? gate : second
        })
    }
    async let synced = store.sync()
    await gate.arrival()
    let during = try await store.set([2], forKey: "b")
    gate.open()
    #expect(try await synced < during)
    #expect(store.durableSequence < during)
    second.open()
    try await store.close()
  }

  /// P3: nor does a sync mark, which is written after the sync, promise those bytes. Otherwise a
  /// power failure that loses them looks like damage.
  @Test func markPromisesNothingThatWasAppendedDuringTheSync() async throws {
    let disk = SimulatedDisk()
    let store = try Store(on: disk, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    try await store.set([2], forKey: "a")
    try await store.waitUntilIdle()
    let gate = Gate()
    disk.setObserver { gate.pass() }
    async let synced = store.sync()
    await gate.arrival()
    disk.setObserver(nil)
    var random = SeededGenerator(seed: 1)
    let long = (0..<20_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    try await store.set(long, forKey: "b")
    gate.open()
    _ = try await synced
    // The mark precedes this record, on a page after those of the long value.
    try await store.set([3], forKey: "c")
    for seed in UInt64(0)..<32 {
      let next = try Store(
        on: SimulatedDisk(disk.image(.pages(seed: seed))), at: "store", configuration: .testing())
      #expect(try await next.value(forKey: "a") == [2], "seed \(seed)")
      try await next.close()
    }
    try await store.close()
  }

  /// Regression: a deadline that expired while no segment was open stayed, and suppressed the next
  /// deadlines: the operations in the next segment were not synced until another sync was
  /// requested.
  @Test(.timeLimit(.minutes(1)), arguments: [Store.Configuration.IOMode.mapped, .positional])
  func anIntervalThatEndsBetweenTwoSegmentsKeepsNoLaterSyncOff(
    mode: Store.Configuration.IOMode
  ) async throws {
    let watch = Watch()
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { watch.judge($0) }
    let interval = Duration.milliseconds(20)
    let store = try Store(
      on: storage, at: "store",
      configuration: .testing(ioMode: mode, durability: .interval(interval)))
    try await store.set([1], forKey: "a")
    // Seals the only segment, and opens no other segment.
    try await store.compact()
    try await Task.sleep(for: interval * 2)
    let last = try await store.set([2], forKey: "b")
    for await event in watch.syncs where event.file == "0000000003.segment" { break }
    while store.durableSequence < last { await Task.yield() }
    try await store.close()
  }
}
