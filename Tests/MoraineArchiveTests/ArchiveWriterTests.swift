import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// What an archive holds, and who may write it.
@Suite(.timeLimit(.minutes(5))) struct ArchiveWriterTests {
  private static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  /// Every shipped state is restored by its position and by its number, with writes, compactions,
  /// checkpoints and new writers in between.
  @Test(arguments: modes, [1, 2, 3] as [UInt64])
  func eachShippedStateIsRestored(mode: Store.Configuration.IOMode, seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    var bench = ArchiveBench()
    // Most rounds need several commits.
    bench.configuration.commitBytes = 3000
    var store = try bench.store("store", mode)
    var writer = try await bench.attach(store)
    var states: [(position: UInt64, sequence: SequenceNumber, state: ArchiveBench.State)] = []
    for round in 0..<30 {
      try await store.change(Int.random(in: 1...60, using: &random), using: &random)
      if round % 4 == 1 { _ = try await store.compact() }
      let sequence = try await writer.flush()
      #expect(sequence == (try await store.statistics().lastSequence))
      states.append((writer.status.position, sequence, try await store.contents()))
      if round % 7 == 3 { try await writer.checkpoint() }
      if round % 10 == 9 {
        if round == 9 { try await writer.detach() } else { await writer.abandon() }
        try await store.close()
        store = try bench.store("store", mode)
        writer = try await bench.attach(store)
      }
    }
    #expect(writer.status.checkpoint > 3)
    for (index, known) in states.enumerated() {
      let byPosition = try await bench.restored(
        .position(known.position), to: FilePath("p\(index)"))
      #expect(byPosition.state == known.state, "seed \(seed), round \(index)")
      let byNumber = try await bench.restored(.sequence(known.sequence), to: FilePath("s\(index)"))
      #expect(byNumber.state == known.state, "seed \(seed), round \(index)")
      #expect(byNumber.sequence == known.sequence)
    }
    let latest = try await bench.restored(to: "latest")
    #expect(latest.state == states.last?.state)
    try await store.close()
  }

  /// Compaction replaces segments between two rounds.
  @Test func numberBetweenTwoCommitsIsRestored() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    var states: [SequenceNumber: ArchiveBench.State] = [:]
    for number in 0..<120 {
      let sequence = try await store.set([UInt8(number)], forKey: Key("\(number % 9)"))
      states[sequence] = try await store.contents()
      if number % 31 == 0 { try await writer.flush() }
    }
    try await writer.flush()
    for (sequence, state) in states where sequence.rawValue % 7 == 0 {
      let restored = try await bench.restored(.sequence(sequence), to: FilePath("\(sequence)"))
      #expect(restored.state == state && restored.sequence == sequence)
    }
    let error = await #expect(throws: ArchiveError.self) {
      try await bench.restored(.sequence(SequenceNumber(rawValue: 10_000)), to: "none")
    }
    #expect(error?.code == .stateUnavailable)
    try await store.close()
  }

  /// Closing a store seals its segment, with a footer that has no number.
  @Test func checkpointOfASealedSegmentIsContinued() async throws {
    let bench = ArchiveBench()
    var store = try bench.store()
    try await store.set([1], forKey: "a")
    let first = try await bench.attach(store)
    try await store.set([2], forKey: "b")
    try await first.flush()
    await first.abandon()
    try await store.close()
    store = try bench.store()
    let second = try await bench.attach(store)
    try await second.checkpoint()
    try await store.set([3], forKey: "c")
    try await second.flush()
    #expect(try await bench.restored(to: "restored").state == ["a": [1], "b": [2], "c": [3]])
    try await second.detach()
    try await store.close()
  }

  /// Some servers refuse requests for one name that race or are frequent.
  @Test func attachRepeatsWhatTheStoreRefusedForTheMoment() async throws {
    var bench = ArchiveBench()
    bench.configuration.probesStore = true
    bench.configuration.patience = .seconds(60)
    let store = try bench.store()
    bench.objects.setScript { request in
      request.object.text.contains("/probe/") && request.verb != .remove
        && request.repetition % 2 == 0 ? .refused(.unavailable) : nil
    }
    let writer = try await bench.attach(store)
    try await writer.detach()
    // An answer that is lost is not repeated: the check compares answers with effects.
    bench.objects.setScript { request in
      request.object.text.contains("/probe/") && request.verb == .put
        && request.repetition == 0 ? .answerLost : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(store) }
    #expect(error?.code == .unavailable)
    try await store.close()
  }

  @Test func idleStoreMakesNoRequest() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    bench.objects.clearTrace()
    for _ in 0..<5 { try await writer.flush() }
    #expect(bench.objects.traffic.requestCount == 0)
    try await store.set([2], forKey: "a")
    try await writer.flush()
    #expect(bench.objects.traffic.requestCount == 2, "a commit, and a look for another writer")
    try await store.close()
  }

  /// The files of a store are copied, as with a virtual machine, and both copies go on.
  @Test func laterWriterFencesTheEarlierOne() async throws {
    let bench = ArchiveBench()
    var store = try bench.store()
    try await store.set([1], forKey: "a")
    try await bench.attach(store).detach()
    try await store.close()
    try bench.storage.copyDirectory("store", to: "copy")
    store = try bench.store()
    let copy = try bench.store("copy")
    let first = try await bench.attach(store)
    let second = try await bench.attach(copy)
    #expect(second.status.term == first.status.term + 1)
    try await store.set([2], forKey: "a")
    try await copy.set([3], forKey: "a")
    let error = await #expect(throws: ArchiveError.self) { try await first.flush() }
    #expect(error?.code == .fenced)
    let refused = await #expect(throws: StoreError.self) { try await store.set([5], forKey: "a") }
    #expect(refused?.code == .fenced)
    #expect(try await store.value(forKey: "a") == [2])
    try await second.flush()
    #expect(try await bench.restored(to: "restored").state == ["a": [3]])
    try await second.detach()
    try await copy.close()
  }

  /// The store goes on when a second writer of the same store has taken over.
  @Test func secondWriterOfAStoreTakesOver() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    let second = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    let error = await #expect(throws: ArchiveError.self) { try await first.flush() }
    #expect(error?.code == .fenced)
    for number in 0..<500 { try await store.set([UInt8(number & 255)], forKey: "b") }
    _ = try await store.compact()
    try await second.flush()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await second.detach()
    try await store.close()
  }

  /// A program that was stopped for long takes over again, also when that fails at first.
  @Test func stoppedWriterTakesOverAgain() async throws {
    var bench = ArchiveBench()
    let store = try bench.store()
    bench.configuration.stallLimit = .milliseconds(30)
    let writer = try await bench.attach(store)
    let term = writer.status.term
    let clock = ContinuousClock()
    let end = clock.now + .milliseconds(31)
    while clock.now < end { await Task.yield() }
    try await store.set([1], forKey: "a")
    bench.objects.setScript { request in
      request.object.text.hasPrefix("users/term/") && request.verb == .create
        ? .refused(.unavailable) : nil
    }
    let away = await #expect(throws: ArchiveError.self) { try await writer.flush() }
    #expect(away?.code == .unavailable)
    bench.objects.setScript(nil)
    try await writer.flush()
    #expect(writer.status.term > term)
    #expect(try await bench.restored(to: "restored").state == ["a": [1]])
    try await writer.detach()
    try await store.close()
  }

  /// The whole copy that a restored store needs fails at first.
  @Test func restoredStoreIsCopiedWholeAfterAFailure() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    let older = writer.status.position
    try await store.set([2], forKey: "a")
    try await writer.checkpoint()
    await writer.abandon()
    try await store.close()
    for round in 0..<2 {
      let path = FilePath("restored \(round)")
      _ = try await bench.restored(.position(older), to: path)
      let restored = try bench.store(path)
      bench.objects.setScript { request in
        request.object.text.hasPrefix("users/obj/") ? .refused(.unavailable) : nil
      }
      let error = await #expect(throws: ArchiveError.self) { try await bench.attach(restored) }
      #expect(error?.code == .unavailable)
      bench.objects.setScript(nil)
      if round == 0 {
        #expect(try await bench.restored(to: "before").state == ["a": [2]])
      }
      let second = try await bench.attach(restored)
      try await restored.set([UInt8(round)], forKey: "b")
      try await second.flush()
      let state = try await bench.restored(to: FilePath("after \(round)")).state
      #expect(state == ["a": [1], "b": [UInt8(round)]])
      try await second.detach()
      try await restored.close()
    }
  }

  /// Taking over is recorded before the fence, which fails; compaction then replaces the segment at
  /// whose end the archive's log ends.
  @Test func failedTakeOverIsRepeatedAfterACompaction() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for number in 0..<50 { try await store.set([UInt8(number)], forKey: Key("\(number % 5)")) }
    try await writer.flush()
    await writer.abandon()
    bench.objects.setScript { request in
      request.object.text.hasPrefix("users/log/") && request.verb == .create
        ? .refused(.unavailable) : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(store) }
    #expect(error?.code == .unavailable)
    bench.objects.setScript(nil)
    for number in 0..<500 { try await store.set([UInt8(number & 255)], forKey: "x") }
    _ = try await store.compact()
    let second = try await bench.attach(store)
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await second.detach()
    try await store.close()
  }

  /// A writer dies after its last commit. Its store fills the segment, goes on in the next one, and
  /// compaction replaces some of the first segments before another writer attaches.
  @Test(arguments: 1...4)
  func endOfAReplacedSegmentIsNotLeftOut(replaced count: Int) async throws {
    let bench = ArchiveBench()
    var store = try bench.store()
    var writer = try await bench.attach(store)
    // Compressed, all values would fit in one segment.
    var random = SeededGenerator(seed: 1)
    func value() -> [UInt8] { (0..<200).map { _ in .random(in: .min ... .max, using: &random) } }
    for number in 0..<30 { try await store.set(value(), forKey: Key("shipped \(number)")) }
    try await writer.flush()
    await writer.abandon()
    for number in 0..<20 { try await store.set(value(), forKey: Key("later \(number)")) }
    try await store.close()
    store = try bench.store()
    try await store.compact(segments: 0..<count)
    writer = try await bench.attach(store)
    try await store.set(value(), forKey: "last")
    let flushed = try await writer.flush()
    let restored = try await bench.restored(to: "restored")
    #expect(try await restored.state == store.contents() && restored.sequence == flushed)
    try await writer.detach()
    try await store.close()
  }

  /// The log of the archive has a key that no tree can hold, and that the store forgot before its
  /// keyspace became ordered. The follower has applied the put, or the delete too, or neither.
  @Test(arguments: 0...2)
  func keyspaceThatBecomesOrderedIsRestoredAndFollowed(caughtUp: Int) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let hashed = try store.keyspace(named: "ordered")
    try await hashed.set([1], forKey: "short")
    let writer = try await bench.attach(store)
    var follower = try await bench.follower()
    let long = Key([UInt8](repeating: 7, count: 600))
    try await hashed.set([2], forKey: long)
    try await writer.flush()
    if caughtUp > 0 { try await follower.catchUp() }
    try await hashed.removeValue(forKey: long)
    try await writer.flush()
    if caughtUp > 1 { try await follower.catchUp() }
    try await store.compact()
    try await store.orderedKeyspace(named: "ordered").set([3], forKey: "new")
    try await writer.flush()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == store.contents())
    // The log of the follower still has the key, and its manifest says that the keyspace is ordered.
    try await follower.close()
    follower = try await bench.follower()
    try await store.set([4], forKey: "last")
    try await writer.flush()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == store.contents())
    #expect(try await follower.store.verify().isSound)
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await follower.store.compact()
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    follower = try await bench.follower()
    #expect(try await follower.store.contents() == store.contents())
    try await writer.detach()
    try await follower.close()
    try await store.close()
  }

  /// A bad page of the log is not passed on.
  @Test func damagedLogIsNotShipped() async throws {
    let bench = ArchiveBench()
    let store = try bench.store("store", .positional)
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    try await store.set([2], forKey: "b")
    let file = try #require(
      try bench.storage.openDirectory("store")?.openFile("0000000001.segment", .readWrite))
    let other: [UInt8] = [0xFF]
    let length = try #require(try await store.logCut()?.segments.last?.lengthBytes)
    try other.withUnsafeBytes { try file.write($0, at: UInt64(length - 8)) }
    let error = await #expect(throws: ArchiveError.self) { try await writer.flush() }
    #expect(error?.code == .store && error?.storeError?.code == .corrupted)
    #expect(try await bench.restored(to: "restored").state == ["a": [1]])
    do { try await store.close() } catch {}
  }

  @Test func olderCopyOfAStoreIsRefused() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    await writer.abandon()
    try await store.close()
    try bench.storage.copyDirectory("store", to: "old")
    let newer = try bench.store()
    let second = try await bench.attach(newer)
    for number in 0..<50 { try await newer.set([UInt8(number)], forKey: "b") }
    try await second.detach()
    try await newer.close()
    let old = try bench.store("old")
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(old) }
    #expect(error?.code == .diverged)
    // It went on by itself, further than the archive.
    for number in 0..<200 { try await old.set([UInt8(number)], forKey: "c") }
    let branch = await #expect(throws: ArchiveError.self) { try await bench.attach(old) }
    #expect(branch?.code == .diverged)
    try await old.close()
    #expect(try await bench.restored(to: "restored").state == ["a": [1], "b": [49]])
  }

  /// The files are copied while the store is open, as with an image of a disk. So the copy has the
  /// segment at whose end the archive's log ends, and less of it.
  @Test func copyOfAnOpenStoreIsRefused() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    try bench.storage.copyDirectory("store", to: "copy")
    try await store.set([2], forKey: "a")
    try await writer.flush()
    let copy = try bench.store("copy")
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(copy) }
    #expect(error?.code == .diverged && error?.message.contains("older copy") == true)
    for number in 0..<20 { try await copy.set([UInt8(number)], forKey: "b") }
    let branch = await #expect(throws: ArchiveError.self) { try await bench.attach(copy) }
    #expect(branch?.code == .diverged)
    #expect(try await bench.restored(to: "restored").state == ["a": [2]])
    try await copy.close()
    do { try await store.close() } catch {}
  }

  @Test func otherStoreIsRefused() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    _ = try await bench.attach(store)
    let other = try bench.store("other")
    try await other.set([1], forKey: "a")
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(other) }
    #expect(error?.code == .otherStore)
    try await other.close()
    try await store.close()
  }

  /// A restored store continues the archive from which it was restored, also from an older state.
  @Test(arguments: [false, true])
  func restoredStoreContinuesTheArchive(fromOlderState: Bool) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    let older = writer.status.position
    try await store.set([2], forKey: "a")
    try await writer.flush()
    await writer.abandon()
    try await store.close()
    _ = try await bench.restored(fromOlderState ? .position(older) : .latest, to: "restored")
    let restored = try bench.store("restored")
    let second = try await bench.attach(restored)
    try await restored.set([3], forKey: "b")
    try await second.detach()
    try await restored.close()
    let value: [UInt8] = fromOlderState ? [1] : [2]
    #expect(try await bench.restored(to: "again").state == ["a": value, "b": [3]])
    // The first life's last state is still there.
    let first = try await bench.restored(.position(older), to: "first")
    #expect(first.state == ["a": [1]])
  }

  /// Segments that compaction replaced were let go, because too many waited.
  @Test func gapIsFollowedByAWholeCopy() async throws {
    var bench = ArchiveBench()
    bench.configuration.heldBytesLimit = 5000
    let positions = Mutex<[UInt64]>([])
    bench.configuration.onEvent = { event in
      if case .gap(let position) = event { positions.withLock { $0.append(position) } }
    }
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "before")
    try await writer.flush()
    let before = writer.status.position
    for number in 0..<2000 { try await store.set([UInt8(number & 255)], forKey: "x") }
    _ = try await store.compact()
    try await writer.flush()
    #expect(positions.withLock { $0.count } == 2, "the first copy, and the gap")
    #expect(try await bench.restored(to: "after").state == store.contents())
    #expect(try await bench.restored(.position(before), to: "before").state == ["before": [1]])
    try await store.close()
  }
}
