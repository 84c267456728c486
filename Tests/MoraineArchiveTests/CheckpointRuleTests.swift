import MoraineArchive
import MoraineEngine
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A writer makes a checkpoint when a restore gains enough from it, and sends nothing twice without
/// a reason.
@Suite(.timeLimit(.minutes(10))) struct CheckpointRuleTests {
  /// A time that moves when the test says so.
  private final class Time: Sendable {
    private let now = Mutex(ContinuousClock.now)

    var value: ContinuousClock.Instant { now.withLock { $0 } }

    func advance(by duration: Duration) { now.withLock { $0 += duration } }
  }

  private final class Checkpoints: Sendable {
    private let numbers = Mutex<[UInt64]>([])

    var count: Int { numbers.withLock { $0.count } }

    func note(_ event: ArchiveEvent) {
      if case .checkpointed(let number, _) = event { numbers.withLock { $0.append(number) } }
    }
  }

  private let checkpoints = Checkpoints()
  private let time = Time()

  private var bench: ArchiveBench {
    var bench = ArchiveBench()
    bench.configuration.patience = .seconds(60)
    bench.configuration.now = { [time] in time.value }
    bench.configuration.onEvent = { [checkpoints] in checkpoints.note($0) }
    return bench
  }

  /// Ships what was written, and waits for the checkpoint that this begins.
  private func ship(_ writer: ArchiveWriter) async throws {
    try await writer.flush()
    try await writer.finishCheckpointUnderWay()
  }

  private func value(_ count: Int, _ random: inout SeededGenerator) -> [UInt8] {
    (0..<count).map { _ in .random(in: .min ... .max, using: &random) }
  }

  /// A store whose open segment has two megabytes, with a checkpoint.
  private func checkpointedStore(_ bench: ArchiveBench) async throws -> (Store, ArchiveWriter) {
    var random = SeededGenerator(seed: 3)
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4 << 20
    configuration.durability = .none
    let store = try Store(on: bench.storage, at: "store", configuration: configuration)
    let writer = try await bench.attach(store)
    for number in 0..<20 { try await store.set(value(100_000, &random), forKey: Key("\(number)")) }
    try await writer.checkpoint()
    return (store, writer)
  }

  @Test func storeThatOnlyGrowsIsSentOnce() async throws {
    var bench = bench
    bench.configuration.checkpointBytes = 20_000
    bench.configuration.commitCostBytes = 0
    var random = SeededGenerator(seed: 1)
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await ship(writer)
    let before = checkpoints.count
    let sent = writer.status.traffic.sentBytes
    for number in 0..<20 {
      for part in 0..<50 {
        try await store.set(value(1000, &random), forKey: Key("\(number) \(part)"))
      }
      try await ship(writer)
    }
    let log = try await store.statistics().appendedBytes
    #expect(Double(writer.status.traffic.sentBytes - sent) < 1.1 * Double(log))
    #expect(checkpoints.count == before)
    try await writer.detach()
    try await store.close()
  }

  @Test func checkpointIsDueWhenCompactionHasRemovedWhatARestoreReads() async throws {
    var bench = bench
    bench.configuration.checkpointBytes = 20_000
    bench.configuration.commitCostBytes = 0
    var random = SeededGenerator(seed: 2)
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for _ in 0..<10 {
      for part in 0..<50 { try await store.set(value(100, &random), forKey: Key("\(part)")) }
    }
    try await ship(writer)
    try await ship(writer)
    let before = checkpoints.count
    let report = try await store.compact()
    #expect(report.inputBytes > report.outputBytes + 20_000)
    try await store.set([1], forKey: "last")
    try await ship(writer)
    // The next look at the store.
    try await ship(writer)
    #expect(checkpoints.count == before + 1)
    // The next one is counted from there.
    try await store.set([2], forKey: "last")
    try await ship(writer)
    #expect(checkpoints.count == before + 1)
    #expect(try await bench.restored(to: "copy").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  @Test func trickleDoesNotSendTheOpenSegmentEachHour() async throws {
    let bench = bench
    let (store, writer) = try await checkpointedStore(bench)
    let before = checkpoints.count
    let sent = writer.status.traffic.sentBytes
    for hour in 1...4 {
      try await store.set([UInt8(hour)], forKey: "a")
      time.advance(by: .seconds(3601))
      try await ship(writer)
    }
    #expect(checkpoints.count == before)
    #expect(writer.status.traffic.sentBytes - sent < 10_000)
    // Ten commits spare more requests than a quarter of two megabytes is worth.
    for _ in 0..<10 {
      try await store.set([5], forKey: "a")
      try await ship(writer)
    }
    #expect(checkpoints.count == before + 1)
    #expect(try await bench.restored(to: "copy").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  @Test func checkpointIsMadeAfterADayHoweverLittleItSpares() async throws {
    let bench = bench
    let (store, writer) = try await checkpointedStore(bench)
    let before = checkpoints.count
    time.advance(by: .seconds(25 * 3600))
    // Nothing was shipped.
    try await ship(writer)
    #expect(checkpoints.count == before)
    try await store.set([1], forKey: "a")
    try await ship(writer)
    try await store.set([2], forKey: "a")
    try await ship(writer)
    #expect(checkpoints.count == before + 1)
    try await writer.detach()
    try await store.close()
  }

  @Test func checkpointIsMadeWhenARestoreWouldReadManyCommits() async throws {
    let bench = bench
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await ship(writer)
    let before = checkpoints.count
    for number in 0..<3700 {
      try await store.set([UInt8(truncatingIfNeeded: number)], forKey: "a")
      try await writer.flush()
    }
    try await writer.finishCheckpointUnderWay()
    #expect(checkpoints.count == before + 1)
    try await writer.detach()
    try await store.close()
  }

  /// A program that ends a round after the last checkpoint makes the next one from what it finds.
  @Test func attachedWriterKnowsWhatEarlierCheckpointsSent() async throws {
    let bench = bench
    var random = SeededGenerator(seed: 5)
    let store = try bench.store()
    let first = try await bench.attach(store)
    for number in 0..<100 { try await store.set(value(1000, &random), forKey: Key("\(number)")) }
    try await first.checkpoint()
    try await first.detach()
    let writer = try await bench.attach(store)
    let sent = writer.status.traffic.sentBytes
    for number in 0..<10 { try await store.set(value(1000, &random), forKey: Key("new \(number)")) }
    time.advance(by: .seconds(3601))
    let before = checkpoints.count
    try await ship(writer)
    try await store.set([1], forKey: "a")
    try await ship(writer)
    #expect(checkpoints.count == before + 1)
    #expect(writer.status.traffic.sentBytes - sent < 60_000, "segments were sent again")
    try await writer.detach()
    try await store.close()
  }

  /// The objects of the checkpoint are not taken before the next state is archived.
  @Test func logIsShippedBesideTheUploadOfACheckpoint() async throws {
    let bench = bench
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await store.set([2], forKey: "a")
    let isOpen = Mutex(false)
    let hasBegun = Mutex(false)
    bench.objects.setScript { request in
      guard request.verb == .put, request.object.text.contains("/obj/") else { return nil }
      hasBegun.withLock { $0 = true }
      return isOpen.withLock { $0 } ? nil : .refused(.unavailable)
    }
    let checkpoint = Task { try await writer.checkpoint() }
    while !hasBegun.withLock({ $0 }) { await Task.yield() }
    try await store.set([3], forKey: "a")
    try await writer.flush()
    #expect(writer.status.archivedSequence == SequenceNumber(rawValue: 3))
    isOpen.withLock { $0 = true }
    try await checkpoint.value
    try await writer.detach()
    try await store.close()
  }
}
