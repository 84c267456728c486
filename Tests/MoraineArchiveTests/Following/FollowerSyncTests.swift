import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Syncs and writes of a follower's disk that fail.
@Suite(.timeLimit(.minutes(5))) struct FollowerSyncTests {
  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.compaction = .manual
    return configuration
  }

  /// Returns a store with one entry, its writer, and a follower that has the entry.
  private func followed(
    _ bench: ArchiveBench, on storage: FaultStorage
  ) async throws -> (Store, ArchiveWriter, Follower) {
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.archive().follow(
      in: "follower", on: storage, configuration: Self.configuration, polls: false)
    try await follower.catchUp()
    return (store, writer, follower)
  }

  /// Regression: after a sync that the full disk had refused, the same bytes were written again in
  /// the same place, and synced again. That sync may succeed although the disk does not hold them.
  @Test(arguments: [StorageEvent.Operation.synchronizeFull, .synchronizeDirectory])
  func failedSyncEndsTheFollower(operation: StorageEvent.Operation) async throws {
    let bench = ArchiveBench()
    let storage = FaultStorage(MemoryStorage())
    let (store, writer, follower) = try await followed(bench, on: storage)
    let before = follower.store
    let state = try await before.contents()
    for number in 0..<100 { try await store.set([UInt8](0..<100), forKey: Key("\(number)")) }
    try await writer.flush()
    let failures = Mutex(0)
    storage.setScript { event in
      guard event.operation == operation else { return nil }
      return failures.withLock { count in
        count += 1
        return count == 1 ? .fail(.noSpace) : nil
      }
    }
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.code == .store && error?.storeError?.code == .noSpace)
    #expect(before.poison != nil)
    let second = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(second?.code == .store)
    #expect(follower.freshness.failure != nil)
    #expect(follower.store !== before, "the store was opened again")
    #expect(try await follower.store.contents() == state)
    try await follower.close()
    storage.setScript(nil)
    let again = try await bench.archive().follow(
      in: "follower", on: storage, configuration: Self.configuration, polls: false)
    try await again.catchUp()
    #expect(try await again.store.contents() == store.contents())
    try await again.close()
    try await writer.detach()
    try await store.close()
  }

  /// Regression: the disk was full when the manifest of the first state after a fence was written.
  /// The follower then took the fence for one that goes on from another state, and left out all
  /// later commits, without an error.
  @Test func fullDiskAfterAFenceDoesNotStopTheFollower() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    var writer = try await bench.attach(store)
    try await writer.flush()
    let storage = FaultStorage(MemoryStorage())
    let follower = try await bench.archive().follow(
      in: "follower", on: storage, configuration: Self.configuration, polls: false)
    try await follower.catchUp()
    await writer.abandon()
    writer = try await bench.attach(store)
    try await store.set([2], forKey: "b")
    try await writer.flush()
    storage.setScript { event in
      event.operation == .write && event.file == Manifest.temporaryFileName ? .fail(.noSpace) : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.code == .store && error?.storeError?.code == .noSpace)
    #expect(follower.freshness.failure == nil)
    storage.setScript(nil)
    let sequence = try await store.set([3], forKey: "c")
    try await writer.flush()
    #expect(try await follower.catchUp() == sequence)
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    let again = try await bench.archive().follow(
      in: "follower", on: storage, configuration: Self.configuration, polls: false)
    #expect(try await again.store.contents() == store.contents())
    try await again.close()
    try await writer.detach()
    try await store.close()
  }

  /// Regression: the disk was full when the manifest of a state was written, and a compaction then
  /// removed segments of that state. The follower read their commits again, and ended.
  @Test func compactionAfterAFullDiskDoesNotEndTheFollower() async throws {
    let bench = ArchiveBench()
    let storage = FaultStorage(MemoryStorage())
    let (store, writer, follower) = try await followed(bench, on: storage)
    for number in 0..<200 { try await store.set([UInt8](0..<100), forKey: Key("\(number % 50)")) }
    let sequence = try await writer.flush()
    storage.setScript { event in
      event.operation == .write && event.file == Manifest.temporaryFileName ? .fail(.noSpace) : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.storeError?.code == .noSpace)
    storage.setScript(nil)
    let report = try await follower.store.compact()
    #expect(report.inputSegmentCount > 1, "segments of the new state were removed")
    #expect(try await follower.catchUp() == sequence)
    #expect(follower.freshness.failure == nil)
    #expect(bench.events.rebases == 0, "no whole copy was read")
    #expect(try await follower.store.contents() == store.contents())
    try await store.set([2], forKey: "b")
    try await writer.flush()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }

  /// The disk was full when the manifest of a state was written, so its commits are read again and
  /// not received again. The store is suspended between both, and goes back to the state before.
  @Test func suspensionBetweenReadsDoesNotEndTheFollower() async throws {
    var bench = ArchiveBench()
    bench.configuration.keptCommitBytes = 0
    let storage = FaultStorage(MemoryStorage())
    let (store, writer, follower) = try await followed(bench, on: storage)
    try await store.set([2], forKey: "b")
    // So the next commit has bytes of a new segment only, which any state of the follower takes.
    try await store.compact()
    try await writer.flush()
    storage.setScript { event in
      event.operation == .write && event.file == Manifest.temporaryFileName ? .fail(.noSpace) : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.storeError?.code == .noSpace)
    storage.setScript(nil)
    try await store.set([3], forKey: "c")
    try await writer.flush()
    let last = try ArchiveNames(root: ArchiveBench.root).commit(writer.status.position)
    let gate = RequestGate()
    let reads = Mutex(0)
    bench.objects.setScript { request in
      guard request.verb == .get, request.object == last else { return nil }
      let count = reads.withLock { count in
        count += 1
        return count
      }
      // The header is read first, and then the commit.
      return count == 2 ? .hang(gate) : nil
    }
    let catchingUp = Task { try await follower.catchUp() }
    await gate.arrival()
    try await follower.store.suspend()
    try await follower.store.resume()
    gate.open()
    do { _ = try await catchingUp.value } catch let error as ArchiveError {
      #expect(error.storeError?.code == .suspended)
    }
    bench.objects.setScript(nil)
    try await follower.catchUp()
    #expect(follower.freshness.failure == nil)
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }
}
