import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Events of a store when nothing fails.
@Suite(.timeLimit(.minutes(10))) struct StoreEventTests {
  private let log = EventLog()

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func eventsOfARunArriveInOrder(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode).telling(
      log)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 20
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.waitUntilIdle()
    #expect(log.names.isEmpty, "the store does not exist yet")
    for number in 0..<200 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    let segments = try await store.segmentStatistics()
    try await store.close()
    #expect(log.names == ["opened"] + segments.map { _ in "sealed" } + ["closed"])
    var sealed: [SegmentNumber] = []
    for case .segmentSealed(let number, let lengthBytes) in log.events {
      sealed.append(number)
      #expect(lengthBytes > 0 && lengthBytes <= 4096)
    }
    #expect(sealed == segments.map(\.number))

    let again = try Store(on: storage, at: "store", configuration: configuration)
    try await again.close()
    let events = Array(log.events.dropFirst(segments.count + 2))
    guard case .opened(let report) = events.first else { throw Missing() }
    #expect(report.wasClean && report.recordCount == 200)
    #expect(events.map(\.name) == ["opened", "closed"])
    #expect(log.failures("closed").isEmpty)
  }

  private struct Missing: Error {}

  @Test func asynchronousOpeningIsReported() async throws {
    let directory = try TestDirectory()
    try await Store(at: directory.path).set([1], forKey: "a", durability: .sync)
    var configuration = Store.Configuration().telling(log)
    configuration.isReadOnly = true
    let store = try await Store.open(at: directory.path, configuration: configuration)
    try await store.close()
    #expect(log.names == ["opened", "closed"])
  }

  @Test func puttingAndGettingReportNoEvents() async throws {
    let store = Store.inMemory(configuration: Store.Configuration().telling(log))
    for number in 0..<1000 {
      let key = Key("\(number)")
      try await store.set([1], forKey: key, durability: number % 100 == 0 ? .sync : nil)
      #expect(try await store.value(forKey: key) == [1])
    }
    try await store.removeValue(forKey: "7")
    await log.arrival(of: "opened")
    #expect(log.names == ["opened"])
    try await store.close()
  }

  @Test func compactionEventsMatchTheReport() async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000).telling(log)
    configuration.compaction = .manual
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<600 { try await store.set([UInt8](0..<50), forKey: Key("\(number % 99)")) }
    let report = try await store.compact()
    let statistics = try await store.statistics()
    try await store.close()
    var sum: (count: Int, input: UInt64, output: UInt64) = (0, 0, 0)
    for case .compacted(let step, let elapsedNanoseconds) in log.events {
      sum.count += step.inputSegmentCount
      sum.input += step.inputBytes
      sum.output += step.outputBytes
      #expect(elapsedNanoseconds > 0)
    }
    #expect(sum.count == report.inputSegmentCount && sum.count > 4)
    #expect(sum.input == report.inputBytes && sum.output == report.outputBytes)
    #expect(log.count("compacted") == Int(statistics.compactionCount))
  }

  @Test func backgroundCompactionsAreReported() async throws {
    let configuration = Store.Configuration.testing(segmentSizeBytes: 4000).telling(log)
    let store = Store.inMemory(configuration: configuration)
    var number = 0
    while log.count("compacted") == 0 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number % 20)"))
      number += 1
    }
    try await store.close()
    #expect(log.names.last == "closed")
    #expect(log.failures("compactionFailed").isEmpty)
  }

  @Test func checkpointIsReported() async throws {
    var configuration = Store.Configuration.testing().telling(log)
    configuration.checkpointFloorBytes = 0
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<20 { try await store.set([1], forKey: Key("\(number)")) }
    try await store.close()
    #expect(log.names == ["opened", "sealed", "checkpointWritten", "closed"])
    for case .checkpointWritten(let lengthBytes, let elapsedNanoseconds) in log.events {
      #expect(lengthBytes == (await store.knownStatistics.checkpointBytes))
      #expect(elapsedNanoseconds > 0)
    }
  }

  @Test func suspendingAndResuming() async throws {
    let store = Store.inMemory(configuration: Store.Configuration.testing().telling(log))
    try await store.set([1], forKey: "a")
    try await store.suspend()
    try await store.resume()
    try await store.close()
    // A checkpoint floor of 0 adds checkpoints.
    let names = log.names.filter { $0 != "checkpointWritten" }
    #expect(names == ["opened", "sealed", "suspended", "opened", "closed"])
  }
}
