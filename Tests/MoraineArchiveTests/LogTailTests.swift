import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineArchive

/// The bytes that a round ships are those between two cuts.
@Suite(.timeLimit(.minutes(1))) struct LogTailTests {
  /// Segments are begun, filled and replaced by compaction after the cut and before its round takes
  /// the segments that were replaced.
  @Test func tailEndsAtItsCut() async throws {
    var random = SeededGenerator(seed: 1)
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "first")
    let retired = RetiredSegments(shippedThrough: .none, limitBytes: 1 << 30)
    _ = await store.attach(retired)
    let first = try #require(try await store.logCut())
    var state = ArchivedState.empty
    (state.sequence, state.logEnd) = (first.sequence, first.logEnd)
    try await store.change(5, using: &random)
    let cut = try #require(try await store.logCut())
    let open = try #require(cut.segments.last)
    let segments = try await store.statistics().segmentCount
    while try await store.statistics().segmentCount < segments + 3 {
      try await store.change(20, using: &random)
    }
    _ = try await store.compact()
    let tail = try #require(
      LogTail(after: state, first.logEnd, cut, retired.take().segments, hasAll: true))
    #expect(tail.parts.map(\.segment.identity) == [open.identity])
    #expect(tail.parts.last?.range.upperBound == open.lengthBytes)
    // The next round has the rest of that segment.
    let next = try #require(try await store.logCut())
    (state.sequence, state.logEnd) = (cut.sequence, cut.logEnd)
    let rest = try #require(
      LogTail(after: state, cut.logEnd, next, retired.take().segments, hasAll: true))
    #expect(rest.parts.first?.segment.identity == open.identity)
    #expect(rest.parts.first?.range.lowerBound == open.lengthBytes)
    #expect(rest.parts.last?.segment.entry.lastSequence == next.sequence)
    try await store.close()
  }

  /// Regression: what another process had written and compacted while the store was suspended
  /// counted as archived. The next commit had the digest of a state that could not be restored.
  @Test(arguments: [false, true])
  func operationsOfAnotherProcessAreInAWholeCopy(hasUnshippedOperation: Bool) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    for number in 0..<10 as Range<UInt8> { try await store.set([number], forKey: "a") }
    let writer = try await bench.attach(store)
    try await writer.flush()
    if hasUnshippedOperation { try await store.set([10], forKey: "a") }
    try await store.suspend()
    let other = try bench.store()
    for number in 11..<20 as Range<UInt8> { try await other.set([number], forKey: "a") }
    _ = try await other.compact()
    try await other.close()
    try await store.resume()
    let cut = try #require(try await store.logCut())
    let areCompacted = cut.segments.allSatisfy { $0.isCompacted }
    #expect(areCompacted, "the log as it was appended is gone")
    #expect(bench.events.gaps == 1, "the first copy")
    try await writer.flush()
    try await store.set([20], forKey: "b")
    try await writer.flush()
    #expect(bench.events.gaps == 2, "the first copy, and the one after the suspension")
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// Regression: a store without mappings was suspended while a checkpoint was uploaded. The opening
  /// removed files of the checkpoint's state, and the writer ended with `.corrupted`.
  @Test func suspensionDuringACheckpointDoesNotEndTheWriter() async throws {
    var random = SeededGenerator(seed: 2)
    let bench = ArchiveBench()
    let store = try bench.store("store", .positional)
    try await store.set([1], forKey: "first")
    let writer = try await bench.attach(store)
    while try await store.statistics().segmentCount < 4 {
      try await store.change(20, using: &random)
    }
    let gate = RequestGate()
    let data = try ArchiveNames(root: ArchiveBench.root).dataObjects.text
    bench.objects.setScript { request in
      request.verb == .put && request.object.text.hasPrefix(data) ? .hang(gate) : nil
    }
    let checkpoint = Task { try await writer.checkpoint() }
    await gate.arrival()
    bench.objects.setScript(nil)
    let report = try await store.compact()
    #expect(report.inputSegmentCount > 1, "files of the state are replaced")
    try await store.suspend()
    try await store.resume()
    gate.open()
    let error = await #expect(throws: ArchiveError.self) { try await checkpoint.value }
    #expect(error?.storeError?.code == .suspended)
    #expect(writer.status.failure == nil)
    try await store.change(20, using: &random)
    try await writer.checkpoint()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// Regression: a store without mappings was suspended before a segment was sent. The error said
  /// that the store of objects cannot be reached.
  @Test func suspensionBeforeASegmentIsSentIsReported() async throws {
    var random = SeededGenerator(seed: 3)
    let bench = ArchiveBench()
    let store = try bench.store("store", .positional)
    try await store.set([1], forKey: "first")
    let objects = WaitingObjects(base: bench.objects)
    let archive = try await Archive.open(
      objects, at: ArchiveBench.root, createIfMissingFor: store,
      configuration: bench.configuration)
    let writer = try await archive.attach(store)
    while try await store.statistics().segmentCount < 4 {
      try await store.change(20, using: &random)
    }
    try await writer.flush()
    let gate = RequestGate()
    objects.gate.withLock { $0 = gate }
    let checkpoint = Task { try await writer.checkpoint() }
    await gate.arrival()
    _ = try await store.compact()
    try await store.suspend()
    try await store.resume()
    objects.gate.withLock { $0 = nil }
    gate.open()
    let error = await #expect(throws: ArchiveError.self) { try await checkpoint.value }
    #expect(error?.storeError?.code == .suspended, "\(String(describing: error))")
    try await writer.checkpoint()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }
}

/// A store of objects that reads no body while its gate is closed.
private final class WaitingObjects: ObjectStore {
  let base: SimulatedObjectStore
  let gate = Mutex<RequestGate?>(nil)

  init(base: SimulatedObjectStore) { self.base = base }

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation { try await base.create(name, body) }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    if let gate = gate.withLock({ $0 }) { _ = await gate.pass() }
    try await base.put(name, body)
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    try await base.get(name, range)
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    try await base.remove(names)
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await base.list(under: prefix, after: last, limit: limit)
  }
}
