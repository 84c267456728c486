import Metrics
import MetricsTestKit
import Moraine
import MoraineTesting
import Testing

/// Tests of the trait `Metrics`.
@Suite(.timeLimit(.minutes(5))) struct MetricsTests {
  private let backend = TestMetrics()
  private static let dimensions = [("store", "test")]

  private var metrics: StoreMetrics { StoreMetrics(storeName: "test", factory: backend) }

  private func total(_ label: String) throws -> Int64 {
    try backend.expectCounter(label, Self.dimensions).totalValue
  }

  private func gauge(_ label: String) throws -> Double? {
    try backend.expectMeter(label, Self.dimensions).lastValue
  }

  @Test func eventsAreCounted() async throws {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4000
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 0
    configuration.record(in: metrics)
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<300 { try await store.set([UInt8](0..<50), forKey: Key("\(number % 50)")) }
    let report = try await store.compact()
    let statistics = try await store.statistics()
    try await store.close()
    #expect(try total("moraine_compaction_read_bytes_total") == Int64(report.inputBytes))
    #expect(try total("moraine_compaction_written_bytes_total") == Int64(report.outputBytes))
    #expect(try total("moraine_compactions_total") == Int64(statistics.compactionCount))
    #expect(try total("moraine_sealed_segments_total") > 3)
    #expect(try total("moraine_sealed_bytes_total") > 12_000)
    #expect(try total("moraine_checkpoints_total") > 0)
    #expect(try total("moraine_checkpoint_written_bytes_total") > 0)
    let timer = try backend.expectTimer("moraine_compaction_duration_seconds", Self.dimensions)
    #expect(timer.values.count == Int(statistics.compactionCount))
    #expect(timer.displayUnit == .seconds)
    let opening = try backend.expectTimer("moraine_opening_duration_seconds", Self.dimensions)
    #expect(opening.values.count == 1)
    #expect(try total("moraine_poisonings_total") == 0)
  }

  @Test func gaugesAreTheStatistics() async throws {
    let metrics = metrics
    let store = Store.inMemory()
    for number in 0..<100 { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    try await store.sync()
    try await store.set([1], forKey: "one more", durability: Durability.none)
    let statistics = try await store.statistics()
    metrics.record(statistics)
    #expect(try gauge("moraine_keys") == 101)
    #expect(try gauge("moraine_segments") == 1)
    #expect(try gauge("moraine_disk_bytes") == Double(statistics.diskBytes))
    #expect(try gauge("moraine_live_bytes") == Double(statistics.liveBytes))
    #expect(try gauge("moraine_index_bytes") == Double(statistics.indexBytes))
    #expect(try gauge("moraine_space_amplification_ratio") == statistics.spaceAmplification)
    #expect(try gauge("moraine_write_amplification_ratio") == 1)
    #expect(try gauge("moraine_last_sequence") == 101)
    #expect(
      try gauge("moraine_undurable_operations")
        == Double(101 - statistics.durableSequence.rawValue))
    #expect(try gauge("moraine_poisoned") == 0)
    #expect(try gauge("moraine_sync_under_way_seconds") == 0)
    try await store.close()
  }

  /// The store's own figures begin at zero with each opening; the counters do not.
  @Test func syncsAndBytesAreCountedAcrossOpenings() async throws {
    let metrics = metrics
    let disk = SimulatedDisk()
    var syncCount: UInt64 = 0
    var appendedBytes: UInt64 = 0
    for round in 0..<3 {
      let store = try disk.openStore()
      // Fewer writes each time, which shows that the store's figures began at zero.
      for number in 0..<(9 - 3 * round) {
        try await store.set([1], forKey: Key("\(number)"), durability: .sync)
        metrics.record(try await store.statistics())
      }
      let statistics = try await store.statistics()
      syncCount += statistics.syncCount
      appendedBytes += statistics.appendedBytes
      metrics.record(statistics)
      try await store.close()
    }
    #expect(try total("moraine_syncs_total") == Int64(syncCount))
    #expect(try total("moraine_appended_bytes_total") == Int64(appendedBytes))
    #expect(syncCount >= 18)
  }

  @Test func bytesAreCountedAcrossASuspension() async throws {
    let metrics = metrics
    let store = Store.inMemory()
    for number in 0..<20 { try await store.set([UInt8](0..<100), forKey: Key("\(number)")) }
    metrics.record(try await store.statistics())
    let before = try total("moraine_appended_bytes_total")
    try await store.suspend()
    try await store.resume()
    // More than before: less would show that the store's figures began at zero.
    for number in 0..<30 { try await store.set([UInt8](0..<100), forKey: Key("\(number)")) }
    metrics.record(try await store.statistics())
    #expect(try total("moraine_appended_bytes_total") - before >= 3000)
    try await store.close()
  }

  @Test func runningRecordsAgainAndAgain() async throws {
    let metrics = metrics
    let store = Store.inMemory()
    let running = Task { await metrics.run(store, every: .milliseconds(1)) }
    let meter = try backend.expectMeter("moraine_keys", Self.dimensions)
    while meter.lastValue != 0 { await Task.yield() }
    try await store.set([1], forKey: "a")
    while meter.lastValue != 1 { await Task.yield() }
    running.cancel()
    await running.value
    try await store.close()
  }

  @Test func poisonIsCounted() async throws {
    var configuration = Store.Configuration()
    let metrics = metrics
    configuration.record(in: metrics)
    let fault = DiskFault.ofFirstSync
    let store = try SimulatedDisk().openStore(configuration: configuration, faults: [fault])
    await #expect(throws: StoreError.self) {
      try await store.set([1], forKey: "a", durability: .sync)
    }
    metrics.record(try await store.statistics())
    try await store.close()
    #expect(try total("moraine_poisonings_total") == 1)
    #expect(try gauge("moraine_poisoned") == 1)
  }
}
