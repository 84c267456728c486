import MoraineArchive
import MoraineEngine
import MoraineTesting
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

/// A writer that is detached while its cleaning waits for a store of objects.
@Suite(.timeLimit(.minutes(1))) struct DetachDuringCleaningTests {
  /// Runs the body with a writer whose cleaning hangs.
  private func withHangingCleaning(
    patience: Duration, _ body: (ArchiveWriter) async throws -> Void
  ) async throws {
    var random = SeededGenerator(seed: 3)
    var bench = ArchiveBench()
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    bench.configuration.cleaningPatience = patience
    bench.configuration.retention = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    let gate = RequestGate()
    bench.objects.setScript { $0.verb == .remove ? .hang(gate) : nil }
    let store = try bench.store()
    let archive = try await Archive.open(
      StubbornObjectStore(base: bench.objects), at: ArchiveBench.root, createIfMissingFor: store,
      configuration: bench.configuration)
    let writer = try await archive.attach(store)
    // A checkpoint that is made beside a cleaning begins no other one.
    while gate.arrivalCount == 0 {
      try await store.change(20, using: &random)
      try await writer.checkpoint()
      clock.advance(hours: 1)
    }
    try await body(writer)
    #expect(writer.status.failure?.code == .cancelled)
    gate.open()
    try await store.close()
    #expect(try await bench.restored(to: "restored").state.isEmpty == false)
  }

  @Test func detachingWaitsForAHangingCleaningOnlyForAWhile() async throws {
    try await withHangingCleaning(patience: .milliseconds(1)) { writer in
      try await writer.detach()
    }
  }

  @Test func cancelledTaskWaitsForNoCleaning() async throws {
    try await withHangingCleaning(patience: .seconds(86_400)) { writer in
      let waiting = Task { await writer.waitForCleaning() }
      waiting.cancel()
      await waiting.value
      await writer.abandon()
    }
  }
}
