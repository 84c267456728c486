import MoraineArchive
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

/// A write with the durability `.replicated` is in the archive when its call returns.
@Suite(.timeLimit(.minutes(5))) struct ReplicatedDurabilityTests {
  @Test func writeIsInTheArchiveWhenItsCallReturns() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let sequence = try await store.set([1], forKey: "a", durability: .replicated)
    #expect(store.replicatedSequence >= sequence)
    #expect(try await bench.restored(to: "restored").state == ["a": [1]])
    try await writer.detach()
    try await store.close()
  }

  @Test func manyWritersShareACommit() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let before = writer.status.position
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<200 {
        group.addTask {
          try await store.set([1], forKey: Key("\(number)"), durability: .replicated)
        }
      }
      try await group.waitForAll()
    }
    #expect(try await bench.restored(to: "restored").state.count == 200)
    #expect(writer.status.position - before < 200)
    try await writer.detach()
    try await store.close()
  }

  @Test func withoutAWriterTheCallThrows() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    for isAfterDetaching in [false, true] {
      if isAfterDetaching { try await bench.attach(store).detach() }
      let error = await #expect(throws: StoreError.self) {
        try await store.set([1], forKey: "a", durability: .replicated)
      }
      #expect(error?.code == .archiveUnavailable)
      #expect(store.replicatedSequence == .none)
    }
    #expect(try await store.value(forKey: "a") == [1], "the write is durable here")
    try await store.close()
  }

  @Test func archiveThatCannotBeReachedIsReported() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    bench.objects.setScript { _ in .refused(.unavailable) }
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) {
        try await store.set([1], forKey: "a", durability: .replicated)
      }
      #expect(error?.code == .archiveUnavailable)
    }
    bench.objects.setScript(nil)
    try await writer.flush()
    try await store.set([2], forKey: "a", durability: .replicated)
    #expect(try await bench.restored(to: "restored").state == ["a": [2]])
    try await writer.detach()
    try await store.close()
  }

  @Test func failedWriteIsWaitedForAgain() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    bench.objects.setScript { _ in .refused(.unavailable) }
    var error = await #expect(throws: StoreError.self) {
      try await store.set([1], forKey: "a", durability: .replicated)
    }
    #expect(error?.code == .archiveUnavailable)
    let sequence = try await store.lastSequence()
    bench.objects.clearTrace()
    error = await #expect(throws: StoreError.self) {
      try await store.waitUntilReplicated(sequence)
    }
    #expect(error?.code == .archiveUnavailable)
    #expect(!bench.objects.trace.isEmpty, "the writer has tried again")
    bench.objects.setScript(nil)
    try await store.waitUntilReplicated(sequence)
    #expect(store.replicatedSequence >= sequence)
    #expect(try await bench.restored(to: "restored").state == ["a": [1]])
    try await writer.detach()
    try await store.close()
  }

  /// Another writer takes over while an operation waits.
  @Test func fencedWriterConfirmsNothing() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a", durability: .replicated)
    let follower = try await bench.follower()
    let (next, nextWriter) = try await follower.promote()
    let error = await #expect(throws: StoreError.self) {
      try await store.set([2], forKey: "a", durability: .replicated)
    }
    #expect(error?.code == .fenced)
    try await next.set([3], forKey: "a", durability: .replicated)
    #expect(try await bench.restored(to: "restored").state == ["a": [3]])
    #expect(writer.status.failure?.code == .fenced)
    try await nextWriter.detach()
    try await next.close()
    try await store.close()
  }

  @Test func closingTheStoreEndsTheWait() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    await writer.abandon()
    try await store.close()
    let error = await #expect(throws: StoreError.self) {
      try await store.waitUntilReplicated(SequenceNumber(rawValue: 5))
    }
    #expect(error?.code == .archiveUnavailable || error?.code == .closed)
  }

  @Test func releasedWriterConfirmsNothing() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    weak var released: ArchiveWriter?
    do {
      let writer = try await bench.attach(store)
      released = writer
      try await store.set([1], forKey: "a", durability: .replicated)
      _ = writer.status
    }
    // The task that has shipped the write may hold the writer for a moment.
    while released != nil { await Task.yield() }
    let error = await #expect(throws: StoreError.self) {
      try await store.set([2], forKey: "a", durability: .replicated)
    }
    #expect(error?.code == .archiveUnavailable)
    try await store.close()
  }

  /// The last append before a restart has failed, and has used up a number.
  @Test func removingAnAbsentKeyIsConfirmed() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a", durability: .replicated)
    #expect(try await store.removeValue(forKey: "b", durability: .replicated) == nil)
    try await writer.detach()
    try await store.close()
  }
}
