import Testing

@testable import MoraineEngine

/// For every value of a configuration's settings, the store uses figures that work.
@Suite(.timeLimit(.minutes(10))) struct ConfigurationBoundsTests {
  @Test(arguments: [
    (Double.infinity, 1_000_000), (1e300, 1_000_000), (-.infinity, 1.1), (0, 1.1), (.nan, 1.5),
    (2, 2),
  ])
  func theSpaceAmplificationLimit(given: Double, used: Double) async throws {
    var configuration = Store.Configuration()
    configuration.compaction.spaceAmplificationLimit = given
    #expect(configuration.bounded().compaction.spaceAmplificationLimit == used)
    try await live(configuration)
  }

  @Test(arguments: [(-1.0, 0), (2, 1), (.nan, 0.95), (.infinity, 1), (0.5, 0.5)])
  func theLiveRatioLimit(given: Double, used: Double) async throws {
    var configuration = Store.Configuration()
    configuration.compaction.liveRatioLimit = given
    #expect(configuration.bounded().compaction.liveRatioLimit == used)
    try await live(configuration)
  }

  @Test(arguments: [(-1, 0), (Int.min, 0), (Int.max, 1 << 50), (1 << 59, 1 << 50), (7, 7)])
  func theCheckpointFloor(given: Int, used: Int) async throws {
    var configuration = Store.Configuration()
    configuration.checkpointFloorBytes = given
    #expect(configuration.bounded().checkpointFloorBytes == used)
    try await live(configuration)
  }

  @Test func aFloorOfAnyHeightMeansNoCheckpoint() async throws {
    var configuration = Store.Configuration()
    // Regression: this value times 32 overflowed to 0.
    configuration.checkpointFloorBytes = 1 << 59
    let store = Store.inMemory(configuration: configuration)
    try await store.set([1], forKey: "a")
    try await store.compact()
    #expect(try await store.statistics().checkpointBytes == 0)
    try await store.close()
  }

  @Test(arguments: [(Int.min, 256), (0, 256), (Int.max, 1 << 30)])
  func theSegmentSize(given: Int, used: Int) async throws {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = given
    #expect(configuration.bounded().segmentSizeBytes == used)
    try await live(configuration)
  }

  @Test func theRateLimit() {
    var configuration = Store.Configuration()
    #expect(configuration.bounded().compaction.rateLimitBytesPerSecond == nil)
    configuration.compaction.rateLimitBytesPerSecond = .min
    #expect(configuration.bounded().compaction.rateLimitBytesPerSecond == 1)
  }

  /// Makes some garbage, compacts, and closes.
  private func live(_ configuration: Store.Configuration) async throws {
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<30 { try await store.set([1], forKey: Key("\(number % 3)")) }
    try await store.compact()
    #expect(try await store.count() == 3)
    try await store.close()
  }

  /// Background compaction ends when no task writes, whatever its settings are.
  @Test(arguments: [0.0, 1], [256, 2000])
  func oddPoliciesComeToRest(liveRatio: Double, segmentSizeBytes: Int) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: segmentSizeBytes)
    configuration.compaction.liveRatioLimit = liveRatio
    configuration.compaction.spaceAmplificationLimit = 1
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<300 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number % 60)"))
      if number % 3 == 0 { try await store.removeValue(forKey: Key("\(number % 20)")) }
    }
    try await store.waitUntilIdle()
    #expect(await store.compactionFailure == nil)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
