import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A limit so low that compaction would take a year: compaction keeps the limit, and delays no
/// other work.
@Suite(.timeLimit(.minutes(10))) struct RateLimitTests {
  private let storage = FaultStorage(MemoryStorage())

  private func store(isAutomatic: Bool, sharesDictionaries: Bool) async throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 40_000, ioMode: .positional)
    configuration.compaction.isAutomatic = isAutomatic
    configuration.compaction.rateLimitBytesPerSecond = 1
    configuration.compaction.sharesDictionaries = sharesDictionaries
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<2000 { try await store.set([UInt8](0..<50), forKey: Key("\(number % 900)")) }
    return store
  }

  /// Starts a compaction, and returns when it reads the first chunk: a pause comes next.
  private func beginCompaction(_ store: Store) async -> Task<CompactionReport, any Error> {
    storage.clearTrace()
    let compaction = Task { try await store.compact() }
    while !storage.trace.contains(where: { $0.operation == .read }) { await Task.yield() }
    return compaction
  }

  /// For records that are copied, and for records that are only read to train a dictionary.
  @Test(arguments: [true, false])
  func rateLimitDoesNotDelayClosing(sharesDictionaries: Bool) async throws {
    let store = try await store(isAutomatic: false, sharesDictionaries: sharesDictionaries)
    let compaction = await beginCompaction(store)
    #expect(try await store.value(forKey: "7") == [UInt8](0..<50))
    try await store.close()
    let error = await #expect(throws: StoreError.self) { try await compaction.value }
    #expect(error?.code == .closed)
    #expect(await store.knownStatistics.compactionCount == 0)
  }

  @Test(arguments: [true, false])
  func rateLimitDoesNotDelayCancelling(sharesDictionaries: Bool) async throws {
    let store = try await store(isAutomatic: false, sharesDictionaries: sharesDictionaries)
    let compaction = await beginCompaction(store)
    compaction.cancel()
    #expect(try await compaction.value.inputSegmentCount == 0)
    #expect(try await store.verify().isSound)
    #expect(try await store.count() == 900)
    try await store.close()
  }

  /// The log then outgrows its limit of space, as the comment of the setting says.
  @Test func rateLimitDoesNotDelayWriters() async throws {
    let store = try await store(isAutomatic: true, sharesDictionaries: false)
    var random = SeededGenerator(seed: 1)
    let value = (0..<40_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    // A segment without live records would be removed without being read.
    for number in 0..<100 {
      try await store.write { batch in
        try batch.set(value, forKey: "large")
        try batch.set([1], forKey: Key("small \(number)"))
      }
    }
    let statistics = try await store.statistics()
    #expect(statistics.diskBytes > 3 << 20, "\(statistics)")
    #expect(await store.isCompacting)
    // The first run was of segments without live records.
    #expect(statistics.compactionCount <= 1)
    try await store.close()
  }
}
