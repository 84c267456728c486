import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// An archive does no more than it must: no whole copy without a gap, no second upload, no request
/// for each commit, no bytes that are held for a writer that does not exist.
@Suite(.timeLimit(.minutes(5))) struct ArchiveEffortTests {
  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.ioMode = .positional
    configuration.compaction = .manual
    configuration.durability = .none
    return configuration
  }

  /// Lets some writes succeed, and each later one find the disk full.
  private func failWrites(after count: Int, to storage: FaultStorage) {
    let writes = Mutex(0)
    storage.setScript { event in
      guard event.operation == .write else { return nil }
      let number = writes.withLock { writes in
        writes += 1
        return writes
      }
      return number > count ? .fail(.noSpace) : nil
    }
  }

  /// Makes appends fail until one of them has used up a number.
  private func useUpANumber(_ store: Store, _ storage: FaultStorage) async throws {
    for skipped in 0..<20 {
      let before = try await store.statistics().lastSequence
      // The first write of an append may be a mark, which has no number.
      failWrites(after: skipped % 4, to: storage)
      var hasFailed = false
      do { try await store.set([2], forKey: "b") } catch { hasFailed = true }
      storage.setScript(nil)
      let after = try await store.logCut()?.sequence ?? before
      if hasFailed, after > before { return }
    }
    Issue.record("no append has used up a number")
  }

  /// Whether a number is missing between two segments.
  private func hasHole(_ store: Store) async throws -> Bool {
    let entries = try await store.logCut()?.segments.map(\.entry) ?? []
    return zip(entries, entries.dropFirst()).contains {
      $0.lastSequence.rawValue + 1 < $1.firstSequence.rawValue
    }
  }

  /// Regression: an append that failed has used up a number, and the archive got a gap.
  @Test func numberOfAFailedAppendIsNoGap() async throws {
    var bench = ArchiveBench()
    let gaps = Mutex(0)
    bench.configuration.onEvent = { event in
      if case .gap = event { gaps.withLock { $0 += 1 } }
    }
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await useUpANumber(store, storage)
    try await store.set([3], forKey: "c")
    try await writer.flush()
    try await useUpANumber(store, storage)
    // No operation follows the number.
    try await writer.flush()
    try await writer.checkpoint()
    #expect(try await bench.restored(to: "one").state == store.contents())
    for number in 0..<200 where try await !hasHole(store) {
      try await useUpANumber(store, storage)
      let value = Array(repeating: UInt8(number), count: 150)
      try await store.set(value, forKey: Key("d \(number % 7)"))
    }
    #expect(try await hasHole(store), "a number was used up between two segments")
    try await writer.flush()
    _ = try await store.compact()
    try await writer.flush()
    #expect(try await bench.restored(to: "two").state == store.contents())
    try await useUpANumber(store, storage)
    try await store.set([4], forKey: "e")
    try await writer.flush()
    #expect(gaps.withLock { $0 } == 1, "the first copy alone")
    await writer.abandon()
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: Self.configuration)
    try await again.set([5], forKey: "f")
    let second = try await bench.attach(again)
    try await second.checkpoint()
    #expect(gaps.withLock { $0 } == 1, "no other copy")
    #expect(try await bench.restored(to: "three").state == again.contents())
    let checked = try await bench.archive().verify(allStates: true)
    #expect(checked.sequence == second.status.archivedSequence)
    try await second.detach()
    try await again.close()
  }

  /// Regression: a commit ended with a number that was in memory alone. After a kill the store gave
  /// it to another operation: the archive refused the store, or counted the operation as archived.
  @Test(arguments: [false, true])
  func numberOfAFailedAppendIsFreeAfterAKill(writesFirst: Bool) async throws {
    let bench = ArchiveBench()
    let storage = FaultStorage(bench.storage)
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let follower = try await bench.follower()
    try await store.set([2], forKey: "c")
    try await useUpANumber(store, storage)
    let used = try await store.lastSequence()
    let archived = try await writer.flush()
    #expect(archived < used, "no operation has the last number")
    #expect(store.replicatedSequence == used, "no operation is missing")
    try await follower.catchUp()
    await writer.abandon()
    try bench.storage.copyDirectory("store", to: "killed")
    let again = try bench.store("killed", .positional)
    if writesFirst { try await again.set([3], forKey: "d") }
    let second = try await bench.attach(again)
    if !writesFirst { try await again.set([3], forKey: "d") }
    try await second.flush()
    #expect(try await again.lastSequence() <= used, "the operation has a number that was used up")
    #expect(try await bench.restored(to: "restored").state == again.contents())
    try await follower.catchUp()
    #expect(try await follower.store.contents() == again.contents())
    #expect(bench.events.rebases == 0, "the follower goes on from its own state")
    try await follower.close()
    try await second.detach()
    try await again.close()
    try await store.close()
  }

  /// Regression: a cut ended with the sync mark of an append that failed. No sync covers the mark,
  /// so a power failure left the archive with more of the log than the store.
  @Test func cutEndsWithTheLastOperation() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    try await store.set([1], forKey: "a")
    try await store.sync()
    let before = try #require(try await store.logCut()?.segments.last)
    // The mark is written, and the operation is not.
    failWrites(after: 1, to: storage)
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    storage.setScript(nil)
    let file = try #require(
      try storage.openDirectory("store")?.openFile(before.identity.number.fileName, .read))
    #expect(try file.lengthBytes() > UInt64(before.lengthBytes), "the mark is in the file")
    let cut = try #require(try await store.logCut())
    #expect(cut.segments.last?.lengthBytes == before.lengthBytes)
    try await store.set([3], forKey: "c")
    let later = try #require(try await store.logCut()?.segments.last)
    #expect(later.lengthBytes > before.lengthBytes)
    try later.verify(from: before.lengthBytes, to: later.lengthBytes)
    try await store.close()
  }

  /// Regression: a used-up number counted as archived. The manifest of a suspension could not be
  /// written, so an operation got the number, and counted as archived before it was.
  @Test func usedUpNumberCountsAsArchivedInOneStayOnly() async throws {
    let bench = ArchiveBench()
    let storage = FaultStorage(bench.storage)
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await useUpANumber(store, storage)
    try await writer.flush()
    let used = store.replicatedSequence
    #expect(try await store.lastSequence() == used)
    storage.setScript { event in event.operation == .write ? .fail(.noSpace) : nil }
    await #expect(throws: StoreError.self) { try await store.suspend() }
    storage.setScript(nil)
    try await store.resume()
    bench.objects.setScript { _ in .refused(.unavailable) }
    let error = await #expect(throws: StoreError.self) {
      try await store.set([3], forKey: "c", durability: .replicated)
    }
    #expect(error?.code == .archiveUnavailable)
    #expect(try await store.lastSequence() <= used, "the operation has a number that was used up")
    bench.objects.setScript(nil)
    try await writer.flush()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// A manifest whose name was not synced may be lost, and the number that it lists with it.
  @Test func numberOfAManifestThatMayBeLostIsNotArchived() async throws {
    let bench = ArchiveBench()
    let storage = FaultStorage(bench.storage)
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    for number in 0..<60 as Range<UInt8> { try await store.set([number], forKey: "a") }
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "c", durability: .sync)
    let last = try await store.lastSequence()
    try await useUpANumber(store, storage)
    let hasRenamed = Mutex(false)
    storage.setScript { event in
      if event.operation == .rename, event.file == Manifest.temporaryFileName {
        hasRenamed.withLock { $0 = true }
      }
      let fails = event.operation == .synchronizeDirectory && hasRenamed.withLock { $0 }
      return fails ? .fail(.ioError) : nil
    }
    await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(hasRenamed.withLock { $0 })
    storage.setScript(nil)
    #expect(try await store.lastSequence() > last)
    do throws(ArchiveError) { try await writer.flush() } catch {
      // A poisoned store need not be archived.
    }
    #expect(writer.status.archivedSequence <= last)
    await writer.abandon()
  }

  /// Regression: compaction had dropped the last operation, a delete, and the store was poisoned
  /// before a round: the delete counted as archived, and no restore read the next checkpoint.
  @Test func droppedDeleteOfAPoisonedStoreIsArchived() async throws {
    let bench = ArchiveBench()
    let storage = FaultStorage(bench.storage)
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    for number in 0..<60 as Range<UInt8> { try await store.set([number], forKey: "a") }
    try await store.set([1], forKey: "b")
    let writer = try await bench.attach(store)
    let shipped = writer.status.archivedSequence
    let last = try #require(try await store.removeValue(forKey: "a", durability: .sync))
    try await store.compact()
    let cut = try #require(try await store.logCut())
    #expect(cut.head.feedHorizon == last)
    #expect(cut.segments.allSatisfy { $0.entry.lastSequence <= shipped }, "the delete is dropped")
    storage.setScript { $0.operation == .synchronizeDirectory ? .fail(.ioError) : nil }
    await #expect(throws: StoreError.self) {
      for number in 0..<100 as Range<UInt8> {
        try await store.set([number], forKey: "c", durability: .sync)
      }
    }
    storage.setScript(nil)
    #expect(store.poison != nil)
    do throws(ArchiveError) {
      try await writer.flush()
      try await writer.checkpoint()
    } catch {
      // A poisoned store need not be archived.
    }
    #expect(store.replicatedSequence <= writer.status.archivedSequence)
    let restored = try await bench.restored(to: "restored")
    #expect(restored.sequence == writer.status.archivedSequence)
    #expect((restored.state["a"] == nil) == (restored.sequence >= last))
    await writer.abandon()
  }

  /// A store that is restored from the archive gives the number to another operation, which may be
  /// a delete of a record in a segment that compaction has written.
  @Test func headerOfACompactedSegmentCountsNoNumberOfAFailedAppend() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    for number in 0..<90 {
      try await store.set(Array(repeating: 1, count: 150), forKey: Key("\(number % 30)"))
    }
    try await useUpANumber(store, storage)
    let before = try #require(try await store.logCut())
    let last = before.segments.map(\.entry.lastSequence).max() ?? .none
    #expect(before.sequence > last, "a number was used up")
    _ = try await store.compact()
    let cut = try #require(try await store.logCut())
    let compacted = cut.segments.filter(\.isCompacted)
    #expect(!compacted.isEmpty)
    for segment in compacted {
      let length = min(4096, segment.lengthBytes)
      let bytes = try segment.withBytes(0..<length) { Array($0) }
      let header = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
      #expect(header.cleanedThrough == last.rawValue)
    }
    try await store.close()
  }

  /// Regression: an upload that failed began again with its first segment.
  @Test(arguments: [1, 2, 3])
  func uploadThatFailedGoesOnAfterItsSegments(count: Int) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for number in 0..<400 { try await store.set([UInt8(number & 255)], forKey: Key("\(number)")) }
    try await writer.flush()
    let puts = Mutex(0)
    bench.objects.setScript { request in
      guard request.verb == .put, request.object.text.hasPrefix("users/obj/") else { return nil }
      return puts.withLock { puts in
        puts += 1
        return puts > count ? .refused(.denied) : nil
      }
    }
    await #expect(throws: ArchiveError.self) { try await writer.checkpoint() }
    bench.objects.setScript(nil)
    #expect(writer.status.failure == nil)
    func objectCount() -> Int {
      bench.objects.objects.keys.count { $0.text.hasPrefix("users/obj/") }
    }
    let before = objectCount()
    try await writer.checkpoint()
    let segments = try await store.logCut()?.segments.count ?? 0
    // The segments that were left, and their list.
    #expect(objectCount() - before == segments + 1 - count)
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// Regression: a store that was restored to an old moment read one header for each commit since.
  @Test func restoredStoreAttachesWithFewRequests() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    let older = writer.status.position
    for number in 0..<600 {
      try await store.set([UInt8(number & 255)], forKey: "b")
      try await writer.flush()
      if number % 100 == 50 { try await writer.checkpoint() }
    }
    try await writer.detach()
    try await store.close()
    _ = try await bench.restored(.position(older), to: "restored")
    let restored = try bench.store("restored")
    bench.objects.clearTrace()
    let second = try await bench.attach(restored)
    #expect(bench.objects.traffic.requestCount < 120)
    #expect(try await bench.restored(to: "again").state == ["a": [1]])
    try await second.detach()
    try await restored.close()
  }

  /// Regression: a writer that was dropped without `detach` left its hold in the store, which kept
  /// what compaction replaced.
  @Test func droppedWriterHoldsNothing() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    weak var dropped: ArchiveWriter?
    do {
      let writer = try await bench.attach(store)
      try await writer.flush()
      dropped = writer
    }
    while dropped != nil { await Task.yield() }
    let hold = RetiredSegments(shippedThrough: .none, limitBytes: 1)
    #expect(await store.attach(hold) == nil)
    try await store.close()
  }

  /// Another writer of the same store attaches and fails. What compaction replaced in between was
  /// handed to it, so a whole copy of the store follows.
  @Test func writerGoesOnAfterAnotherAttachFailed() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let first = try await bench.attach(store)
    for number in 0..<50 { try await store.set([UInt8(number)], forKey: "b") }
    try await first.checkpoint()
    let gate = RequestGate()
    bench.objects.setScript { request in
      if request.verb == .get, request.object.text == "users/head" { return .hang(gate) }
      return request.verb == .create ? .refused(.unavailable) : nil
    }
    let second = Task { try await bench.attach(store) }
    await gate.arrival()
    for number in 0..<900 { try await store.set([UInt8(number & 255)], forKey: "c") }
    _ = try await store.compact()
    gate.open()
    await #expect(throws: ArchiveError.self) { try await second.value }
    bench.objects.setScript(nil)
    for number in 0..<9 { try await store.set([UInt8(number)], forKey: "d") }
    try await first.flush()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await first.detach()
    try await store.close()
  }

  @Test func statusCountsRequestsAndSaysSinceWhenTheArchiveLags() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let attached = try #require(writer.status.upToDateAt)
    let before = writer.status.traffic
    let count = bench.objects.trace.count
    try await store.set([1], forKey: "a")
    let written = ContinuousClock.now
    try await writer.flush()
    let status = writer.status
    #expect(status.traffic.requestCount - before.requestCount == bench.objects.trace.count - count)
    #expect(status.traffic.sentBytes > before.sentBytes)
    #expect(attached < written)
    let shipped = try #require(status.upToDateAt)
    #expect(shipped > written)
    bench.objects.setScript { _ in .refused(.unavailable) }
    try await store.set([2], forKey: "a")
    await #expect(throws: ArchiveError.self) { try await writer.flush() }
    #expect(writer.status.upToDateAt == shipped, "the archive lags since then")
    bench.objects.setScript(nil)
    let follower = try await bench.follower()
    #expect(follower.freshness.traffic.requestCount == 0, "only its own requests")
    try await follower.catchUp()
    #expect(follower.freshness.traffic.requestCount > 0)
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }
}
