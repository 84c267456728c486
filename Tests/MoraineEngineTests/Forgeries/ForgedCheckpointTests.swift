import MoraineFormat
import Testing

@testable import MoraineEngine

/// Index checkpoints with right checksums and false figures: the log is unchanged, and nothing
/// traps or loops for ever.
@Suite(.timeLimit(.minutes(10))) struct ForgedCheckpointTests {
  struct Lie: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let tell: @Sendable (inout CheckpointHeader) -> Void
  }

  private static func lie(
    _ name: String, _ change: @escaping @Sendable (inout CheckpointHeader.Segment) -> Void
  ) -> Lie {
    Lie(testDescription: name) { header in
      for index in header.segments.indices { change(&header.segments[index]) }
    }
  }

  private static let lies = [
    lie("a record count without end") { $0.recordCount = .max },
    lie("more records than fit") { $0.recordCount = $0.endOffset / 20 + 1 },
    lie("live bytes near the largest integer") { $0.liveBytes = .max / 2 + 9 },
    lie("more live bytes than bytes") { $0.liveBytes = $0.endOffset + 1 },
    lie("deletes without end") { $0.deleteBytes = .max },
    lie("a last number after all others") { $0.lastSequence = .max },
    lie("a first number after the last") { $0.firstSequence = $0.lastSequence + 1 },
    lie("deletes that are needless before they are made") { $0.cleanedThrough = .max },
    Lie(testDescription: "more keys than there are slots") {
      $0.keyCount = ($0.bucketCount + $0.overflowCount) * 8 + 1
    },
    Lie(testDescription: "a number after the largest") { $0.lastSequence = 1 << 56 },
  ]

  @Test(arguments: lies)
  func checkpointWithForgedFiguresIsNotUsed(_ lie: Lie) async throws {
    let directory = try await Self.store(keys: 20)
    try CheckpointForgery(directory: directory).change { header, _ in lie.tell(&header) }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    #expect(await store.recoveryReport.usedCheckpoint == false)
    try await Self.check(store, keys: 20)
  }

  @Test func checkpointWithUnchangedFiguresIsUsed() async throws {
    let directory = try await Self.store(keys: 20)
    try CheckpointForgery(directory: directory).change { _, _ in }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    try await Self.check(store, keys: 20)
  }

  /// Buckets split before all of the checkpoint was checked; the overflow buckets that they release
  /// are not reused until then.
  @Test func indexGrowsBeforeAllOfTheCheckpointIsChecked() async throws {
    let directory = try await Self.store(keys: 5500)
    let store = try Store(at: directory.path, configuration: Self.configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    for number in 5500..<8500 { try await store.set([1], forKey: Key("\(number)")) }
    let before = await store.overflowState()
    #expect(before.hasUnvalidatedPages)
    #expect(before.released > 0)
    #expect(before.linked + before.free + before.released == before.count)
    try await Self.check(store, keys: 8500) {
      let after = await store.overflowState()
      #expect(!after.hasUnvalidatedPages)
      #expect(after.linked + after.free == after.count)
    }
  }

  /// Regression: every look-up ran in circles.
  @Test func circularOverflowBucketChangesNoAnswer() async throws {
    let directory = try await Self.store(keys: 5500)
    try CheckpointForgery(directory: directory).change { header, bytes in
      try #require(header.overflowCount > 0)
      for bucket in 0..<Int(header.overflowCount) {
        bytes.store(Self.link(to: bucket), at: header.overflowOffset + bucket * 64 + 56)
      }
    }
    try await Self.check(Store(at: directory.path, configuration: Self.configuration), keys: 5500)
  }

  /// Splitting one of the two buckets releases an overflow bucket that the other one still uses.
  @Test(arguments: [0, 3000])
  func overflowBucketInTwoChainsChangesNoAnswer(more: Int) async throws {
    let directory = try await Self.store(keys: 5500)
    try CheckpointForgery(directory: directory).change { header, bytes in
      var linking: [Int] = []
      for bucket in 0..<Int(header.bucketCount) {
        let place = header.lengthBytes + bucket * 64 + 56
        if bytes.load(UInt64.self, at: place) & Self.link(to: 0) == Self.link(to: 0) {
          linking.append(place)
        }
      }
      try #require(linking.count > 1)
      // All buckets share the overflow bucket of the first of them.
      let first = bytes.load(UInt64.self, at: linking[0])
      for place in linking { bytes.store(first, at: place) }
    }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    for number in 5500..<5500 + more { try await store.set([1], forKey: Key("\(number)")) }
    try await Self.check(store, keys: 5500 + more)
  }

  private static func link(to bucket: Int) -> UInt64 { 0xFFFFF << 28 | UInt64(bucket) }

  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration.hashed()
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  /// A closed store with a checkpoint.
  private static func store(keys: Int) async throws -> TestDirectory {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.write { batch in
        for number in 0..<keys { try batch.set([1], forKey: Key("\(number)")) }
      }
    }
    return directory
  }

  private static func check(
    _ store: Store, keys: Int, compacted: () async -> Void = {}
  ) async throws {
    for number in 0..<keys {
      #expect(try await store.value(forKey: Key("\(number)")) == [1], "\(number)")
    }
    #expect(try await store.count() == keys)
    try await store.set([2], forKey: "more")
    try await store.compact()
    await compacted()
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}

/// The overflow buckets of an index.
private struct OverflowState {
  /// Whether part of the index may not have been checked.
  let hasUnvalidatedPages: Bool
  let count: Int
  /// Number of overflow buckets in the chains.
  let linked: Int
  let free: Int
  /// Number of overflow buckets that wait for the check of all pages.
  let released: Int
}

extension Store {
  fileprivate func overflowState() -> OverflowState { engine!.live.index.overflowState() }
}

extension HashIndex {
  fileprivate func overflowState() -> OverflowState {
    var linked = 0
    for number in 0..<buckets.count {
      var last = bucket(number)[Self.slotsPerBucket - 1]
      while Self.isLink(last) {
        linked += 1
        last = overflowBucket(Self.linkTarget(last))[Self.slotsPerBucket - 1]
      }
    }
    return OverflowState(
      hasUnvalidatedPages: hasUnvalidatedPages, count: overflow.count, linked: linked,
      free: freeOverflow.count, released: pages?.retiredOverflow.count ?? 0)
  }
}
