import MoraineArchive
import MoraineEngine
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A store of objects that does not answer a request to remove before a script lets it, also not
/// when the task of the request is cancelled.
private struct StubbornObjectStore: ObjectStore {
  let base: SimulatedObjectStore

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    try await base.create(name, body)
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    try await base.put(name, body)
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    try await base.get(name, range)
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    // A task of its own, which is not cancelled with the caller's.
    let task = Task { [base] () async -> Result<Void, ObjectStoreError> in
      do throws(ObjectStoreError) {
        return .success(try await base.remove(names))
      } catch {
        return .failure(error)
      }
    }
    try await task.value.get()
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await base.list(under: prefix, after: last, limit: limit)
  }
}

/// The events of cleanings.
private final class CleaningEvents: Sendable {
  private let state = Mutex((reports: [CleaningReport](), failures: [ArchiveError.Code]()))

  var reports: [CleaningReport] { state.withLock { $0.reports } }
  var failures: [ArchiveError.Code] { state.withLock { $0.failures } }

  func note(_ event: ArchiveEvent) {
    state.withLock { state in
      switch event {
      case .cleaned(let report): state.reports.append(report)
      case .cleaningFailed(let error): state.failures.append(error.code)
      default: break
      }
    }
  }
}

/// A writer that is detached while its cleaning waits for a store of objects.
@Suite(.timeLimit(.minutes(1))) struct DetachDuringCleaningTests {
  /// Runs the body with a writer whose cleaning hangs.
  ///
  /// - Returns: the failures of cleanings that were reported.
  private func withHangingCleaning(
    patience: Duration, _ body: (ArchiveWriter) async throws -> Void
  ) async throws -> [ArchiveError.Code] {
    var random = SeededGenerator(seed: 3)
    var bench = ArchiveBench()
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    bench.configuration.cleaningPatience = patience
    let events = CleaningEvents()
    bench.configuration.onEvent = { events.note($0) }
    bench.configuration.retention = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    let gate = RequestGate()
    bench.objects.setScript { $0.verb == .remove ? .hang(gate) : nil }
    let store = try bench.store()
    let archive = try await Archive.open(
      StubbornObjectStore(base: bench.objects), at: ArchiveBench.root, createIfMissingFor: store,
      configuration: bench.configuration)
    let writer = try await archive.attach(store)
    // A checkpoint that is made beside a cleaning begins no other one. The cleaning after the first
    // checkpoint, which attaching makes, may hang already.
    repeat {
      try await store.change(20, using: &random)
      try await writer.checkpoint()
      clock.advance(hours: 1)
    } while gate.arrivalCount == 0
    try await body(writer)
    #expect(writer.status.failure?.code == .cancelled)
    gate.open()
    try await store.close()
    #expect(try await bench.restored(to: "restored").state.isEmpty == false)
    return events.failures
  }

  @Test func detachingWaitsForAHangingCleaningOnlyForAWhile() async throws {
    let failures = try await withHangingCleaning(patience: .milliseconds(1)) { writer in
      try await writer.detach()
    }
    #expect(failures == [.cancelled], "the interruption is reported")
  }

  @Test func cancelledTaskWaitsForNoCleaning() async throws {
    let failures = try await withHangingCleaning(patience: .seconds(86_400)) { writer in
      let waiting = Task { await writer.waitForCleaning() }
      waiting.cancel()
      await waiting.value
      await writer.abandon()
    }
    #expect(failures.isEmpty)
  }

  /// Regression: the whole cleaning had five seconds. A program that runs briefly cleaned nothing,
  /// because a cleaning reads all checkpoints before it removes anything.
  @Test func detachingWaitsForACleaningWhoseRequestsAreAnswered() async throws {
    var random = SeededGenerator(seed: 4)
    var bench = ArchiveBench()
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    let store = try bench.store()
    let first = try await bench.attach(store)
    for _ in 0..<6 {
      try await store.change(20, using: &random)
      _ = try await store.compact()
      try await first.checkpoint()
      clock.advance(hours: 1)
    }
    try await first.detach()
    let (reading, removing, sleeps) = (RequestGate(), RequestGate(), Counter())
    let objects = bench.objects
    objects.setScript { request in
      if request.verb == .list { return .hang(reading) }
      return request.verb == .remove ? .hang(removing) : nil
    }
    let events = CleaningEvents()
    bench.configuration.onEvent = { events.note($0) }
    bench.configuration.retention = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    // The first time is over when the cleaning has read something, and the second time lets it
    // remove. A time that is no longer needed is cancelled.
    bench.configuration.sleep = { _ in
      let count = objects.traffic.requestCount
      (sleeps.next() == 0 ? reading : removing).open()
      // The first one of two more requests was answered.
      while objects.traffic.requestCount < count + 2 {
        try await Task.sleep(for: .milliseconds(1))
      }
    }
    let second = try await bench.attach(store)
    try await store.change(20, using: &random)
    try await second.checkpoint()
    await reading.arrival()
    try await second.detach()
    #expect(events.failures.isEmpty)
    #expect(events.reports.contains { $0.commitCount > 0 && $0.objectCount > 0 })
    try await store.close()
    #expect(try await bench.restored(to: "restored").state.isEmpty == false)
  }
}
