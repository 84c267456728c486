import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Compaction comes to an end: the copy leaves out everything that the choice of segments counts as
/// garbage.
@Suite(.timeLimit(.minutes(10))) struct SettledCompactionTests {
  private static func configuration() -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    // The test runs the steps of background compaction itself.
    configuration.compaction = .manual
    return configuration
  }

  /// Regression: the feed lags by more than the limit of the bytes that compaction keeps for it.
  /// Then segments whose deletes the feed has not seen may be rewritten, and the copy keeps the
  /// deletes. The choice counted those deletes as garbage, so that rewriting the segments was due
  /// again at once.
  @Test func idleStoreWithALaggingFeedRewritesNothingTwice() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration())
    store.waitForIteratorsForever()
    store.observers.pins.limitBytes.store(10_000, ordering: .relaxed)
    try await store.set([0], forKey: "a")
    var iterator = store.contentsAndChanges().makeAsyncIterator()
    _ = try await iterator.next()
    for number in 0..<3000 {
      try await store.set([UInt8](repeating: UInt8(number % 256), count: 40), forKey: "b")
      try await store.removeValue(forKey: "b")
    }
    let first = try await store.compactInSteps(limit: 1000)
    #expect(first > 0 && first < 1000, "\(first) steps")
    let before = try await store.statistics()
    #expect(try await store.compactInSteps(limit: 1000) == 0)
    #expect(try await store.statistics().compactionBytes == before.compactionBytes)
    // The deletes still exist for the feed.
    var removals = 0
    while let change = try await iterator.next() {
      if change.isRemoval { removals += 1 }
      if change.sequence == before.lastSequence { break }
    }
    #expect(removals == 3000)
    // The deletes were kept only for the feed.
    #expect(try await store.compactInSteps(limit: 1000) > 0)
    let after = try await store.statistics()
    // Some garbage is tolerated in a store of any size.
    let floor = UInt64(
      CompactionPicker(segmentSizeBytes: 1, spaceAmplificationLimit: 1).garbageFloorBytes)
    #expect(after.diskBytes < min(floor + 1000, before.diskBytes), "\(after.diskBytes)")
    try await store.close()
  }

  /// After any writes and with any feeds: when compaction has ended, it has nothing left to do.
  @Test(arguments: 0..<12)
  func secondCompactionFindsNothingToDo(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration())
    store.waitForIteratorsForever()
    let limit = [0, 20_000, 64 << 20][Int(seed % 3)]
    store.observers.pins.limitBytes.store(limit, ordering: .relaxed)
    try await store.set([0], forKey: "a")
    var iterators: [ChangeSequence.Iterator] = []
    for round in 0..<4 {
      for _ in 0..<1500 {
        let key = Key("\(random.next() % 50)")
        if random.next() % 3 == 0 {
          try await store.removeValue(forKey: key)
        } else {
          try await store.set([UInt8](repeating: 1, count: Int(random.next() % 80)), forKey: key)
        }
      }
      if random.next() % 2 == 0 {
        var iterator = store.contentsAndChanges().makeAsyncIterator()
        for _ in 0..<random.next() % 40 { _ = try await iterator.next() }
        iterators.append(iterator)
      }
      let steps = try await store.compactInSteps(limit: 1000)
      let replay = Comment("seed \(seed), round \(round)")
      try #require(steps < 1000, replay)
      let bytes = try await store.statistics().compactionBytes
      #expect(try await store.compactInSteps(limit: 1000) == 0, replay)
      #expect(try await store.statistics().compactionBytes == bytes, replay)
      #expect(try await store.verify().isSound, replay)
    }
    try await store.close()
  }
}

extension Store {
  /// Rewrites the segments that background compaction would rewrite, step by step.
  ///
  /// - Returns: the number of steps; `limit` when there was more to do.
  fileprivate func compactInSteps(limit: Int) async throws -> Int {
    let policy = CompactionPolicy()
    let work = CompactionWork(pacer: CompactionPacer(policy: policy, isUrgent: true))
    try await sealForCompaction()
    compaction.begin()
    defer { endCompaction() }
    var count = 0
    while count < limit, let slots = engine?.nextCompaction(BackgroundStrategy(policy: policy)) {
      _ = try await rewrite(slots, work)
      count += 1
    }
    return count
  }
}
