import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Limits of garbage: a store that no task writes to any more gets smaller than a busy one, and
/// writers are delayed.
@Suite(.timeLimit(.minutes(3))) struct IdleCompactionTests {
  private static func configuration(_ limit: Double) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1 << 20)
    configuration.idleInterval = .milliseconds(5)
    configuration.compaction.spaceAmplificationLimit = 3
    configuration.compaction.idleSpaceAmplificationLimit = limit
    return configuration
  }

  /// Writes 8 MB that do not compress, and overwrites a key in two.
  private func fill(_ store: Store) async throws {
    var random = SeededGenerator(seed: 1)
    for round in 0..<2 {
      for number in stride(from: 0, to: 800, by: round + 1) {
        let value = (0..<10_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        try await store.set(value, forKey: Key("\(number)"))
      }
    }
  }

  @Test func idleStoreIsCompactedToItsLimit() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(1.1))
    try await fill(store)
    while try await store.statistics().spaceAmplification > 1.12 { await Task.yield() }
    try await store.waitUntilIdle()
    #expect(try await store.count() == 800)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: deletes that needed no room did not begin the wait for an idle store.
  @Test func idleStoreIsCompactedAfterDeletes() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(1.1))
    var random = SeededGenerator(seed: 1)
    for number in 0..<400 {
      let value = (0..<10_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
      try await store.set(value, forKey: Key("\(number)"))
    }
    while await store.watchesForIdleness { await Task.yield() }
    for number in 0..<100 { try await store.removeValue(forKey: Key("\(number)")) }
    while try await store.statistics().spaceAmplification > 1.12 { await Task.yield() }
    try await store.waitUntilIdle()
    #expect(try await store.count() == 300)
    try await store.close()
  }

  /// The garbage may lie in the active segment alone.
  @Test func activeSegmentOfAnIdleStoreIsSealedForItsGarbage() async throws {
    var configuration = Self.configuration(1.1)
    configuration.segmentSizeBytes = 64 << 20
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    var random = SeededGenerator(seed: 1)
    let value = (0..<10_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    for number in 0..<400 { try await store.set(value, forKey: Key("\(number % 40)")) }
    #expect(try await store.statistics().segmentCount == 1)
    while try await store.statistics().spaceAmplification > 1.12 { await Task.yield() }
    try await store.waitUntilIdle()
    #expect(try await store.count() == 40)
    try await store.close()
  }

  @Test func limitDecidesWhetherAnIdleStoreIsCompacted() {
    func figures(garbage: Int) -> CompactionFigures {
      let segment = SegmentFigures(bytes: 10 << 20, liveBytes: (10 << 20) - garbage)
      return CompactionFigures(
        segments: [segment, segment], open: [], active: nil, totalBytes: 20 << 20,
        liveBytes: UInt64((20 << 20) - 2 * garbage), segmentSizeBytes: 64 << 20,
        fittingSegmentBytes: 64 << 20)
    }
    var policy = CompactionPolicy()
    #expect(IdleStrategy(policy: policy).next(figures(garbage: 2 << 20)) != nil)
    #expect(IdleStrategy(policy: policy).next(figures(garbage: 1 << 19)) == nil)
    #expect(BackgroundStrategy(policy: policy).next(figures(garbage: 2 << 20)) == nil)
    policy.idleSpaceAmplificationLimit = 1.5
    #expect(IdleStrategy(policy: policy).next(figures(garbage: 2 << 20)) == nil)
  }

  @Test func delaysGrowWithTheGarbage() {
    let shares = stride(from: 0.0, through: 4, by: 0.25).map { WriterDelay(share: $0) }
    var lastRate = 0.0
    for delay in shares {
      guard case .pause(let rate) = delay else {
        #expect(delay == .untilProgress)
        continue
      }
      #expect(rate > lastRate)
      let (nanoseconds, bytes) = WriterDelay.pause(atRate: rate, before: 100)
      #expect((1_000...1_000_000).contains(nanoseconds) && bytes >= 100)
      #expect(abs(Double(nanoseconds) / Double(bytes) / rate - 1) < 0.1)
      lastRate = rate
    }
    #expect(lastRate > 50 && shares.last == .untilProgress)
  }

  @Test func longUnitsPauseForAllOfTheirBytes() {
    #expect(WriterDelay.pause(atRate: 1, before: 100) == (1_000, 1_000))
    #expect(WriterDelay.pause(atRate: 8, before: 1 << 20) == (8 << 20, 1 << 20))
    #expect(WriterDelay.pause(atRate: 64, before: 1 << 30) == (128_000_000, 1 << 30))
    #expect(WriterDelay.progressBytes(before: 100) == 3 * WriterDelay.progressPieceBytes)
    #expect(WriterDelay.progressBytes(before: 64 << 20) == 3 * 64 << 20)
  }

  /// Overwrites a key until there is enough garbage for pauses, and goes on through some segments,
  /// while a compaction is under way that does nothing.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func rotationKeepsThePausesOfWriters(mode: Store.Configuration.IOMode) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 512 << 10, ioMode: mode)
    configuration.idleInterval = .seconds(3600)
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([0], forKey: "a")
    await store.beginCompactionThatDoesNothing()
    var random = SeededGenerator(seed: 1)
    var value = (0..<10_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    var (segments, mayPause) = (Set<Int>(), false)
    for number in 0..<600 {
      value[number] &+= 1
      try await store.set(value, forKey: "a")
      let next = await store.nextPause
      if mayPause { #expect(next.offset < .max, "put \(number)") }
      mayPause = mayPause || number > 300
      if mayPause { segments.insert(next.slot) }
    }
    #expect(segments.count > 3)
    await store.endCompaction()
    try await store.close()
  }

  /// A compaction that publishes ends the active segment early, where others write. Where no space
  /// is allocated ahead, nothing else makes a writer ask before the middle of the next one.
  @Test func earlyEndKeepsThePausesOfWriters() async throws {
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: 16 << 20, ioMode: .positional, durability: .none)
    configuration.idleInterval = .seconds(3600)
    configuration.spareFloorBytes = 0
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([0], forKey: "a")
    await store.beginCompactionThatDoesNothing()
    var random = SeededGenerator(seed: 1)
    var value = (0..<10_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    for number in 0..<400 {
      value[number] &+= 1
      try await store.set(value, forKey: "a")
    }
    let before = await store.nextPause
    #expect(before.offset < .max)
    try await store.makeDurable(through: 300)
    let after = await store.nextPause
    #expect(after.slot != before.slot && after.offset < .max)
    await store.endCompaction()
    try await store.close()
  }

  @Test func writerOfAGrowingFileIsAskedAgain() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: .testing(ioMode: .positional))
    try await store.set([0], forKey: "a")
    #expect(await store.nextPause.offset < 4 << 20)
    try await store.close()
  }

  @Test func garbageOfLongValuesStaysLimited() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 8 << 20)
    configuration.compaction.sharesDictionaries = false
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    var random = SeededGenerator(seed: 1)
    var value = (0..<1 << 20).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    var most: UInt64 = 0
    for number in 0..<500 {
      value[number] &+= 1
      try await store.set(value, forKey: Key("\(random.next() % 20)"))
      most = max(most, try await store.statistics().diskBytes)
    }
    // 20 MiB are live, 10 MiB of garbage are allowed, and writers wait at 49 MiB more.
    #expect(most < 100 << 20)
    try await store.close()
  }
}

extension Store {
  fileprivate func beginCompactionThatDoesNothing() { compaction.begin() }

  /// The slot of the active segment, and the offset at which its writers pause next.
  fileprivate var nextPause: (slot: Int, offset: Int) {
    (engine!.log.active!.slot, engine!.log.active!.pauseEnd)
  }
}
