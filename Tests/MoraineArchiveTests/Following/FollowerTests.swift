import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// What a follower shows, and that it becomes the writer.
@Suite(.timeLimit(.minutes(5))) struct FollowerTests {
  private static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  /// The writer's commits, compactions and checkpoints, the follower's own compactions, and both
  /// killed and opened again.
  @Test(arguments: modes, [1, 2, 3, 4] as [UInt64])
  func followerHasEachShippedState(mode: Store.Configuration.IOMode, seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 3000
    var store = try bench.store("store", mode)
    var writer = try await bench.attach(store)
    try await store.change(20, using: &random)
    try await writer.flush()
    var follower = try await bench.follower("follower", mode)
    for round in 0..<40 {
      try await store.change(Int.random(in: 1...60, using: &random), using: &random)
      if round % 4 == 1 { _ = try await store.compact() }
      let sequence = try await writer.flush()
      if round % 3 != 0 {
        #expect(try await follower.catchUp() == sequence, "seed \(seed), round \(round)")
        #expect(
          try await follower.store.contents() == store.contents(), "seed \(seed), round \(round)")
      }
      if round % 7 == 3 { try await writer.checkpoint() }
      if round % 5 == 4 { _ = try await follower.store.compact() }
      if round % 6 == 5 {
        try await follower.close()
        follower = try await bench.follower("follower", mode)
      }
      if round % 10 == 9 {
        await writer.abandon()
        try await store.close()
        store = try bench.store("store", mode)
        writer = try await bench.attach(store)
      }
    }
    try await writer.flush()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == store.contents(), "seed \(seed)")
    _ = try await follower.store.verify()
    #expect(bench.events.rebases == 0, "a gap needs a whole copy; nothing else does")
    try await follower.close()
    try await store.close()
  }

  @Test func followerRefusesWrites() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let follower = try await bench.follower()
    let error = await #expect(throws: StoreError.self) {
      try await follower.store.set([2], forKey: "a")
    }
    #expect(error?.code == .readOnly)
    let queue = try await follower.store.writeQueue()
    let queued = await #expect(throws: StoreError.self) { try await queue.set([2], forKey: "a") }
    #expect(queued?.code == .readOnly)
    try await follower.close()
    let opening = #expect(throws: StoreError.self) { try bench.store("follower") }
    #expect(opening?.code == .readOnly)
    try await writer.detach()
    try await store.close()
  }

  @Test func idleFollowerAsksOnce() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    try await follower.catchUp()
    bench.objects.clearTrace()
    for _ in 0..<10 { #expect(await follower.followInBackground()) }
    #expect(bench.objects.traffic.requestCount <= 11)
    try await follower.close()
    try await store.close()
  }

  /// The bytes between two commits were lost to the archive.
  @Test(arguments: modes) func gapIsFollowedByAWholeCopy(
    mode: Store.Configuration.IOMode
  ) async throws {
    var bench = ArchiveBench()
    bench.configuration.heldBytesLimit = 0
    let store = try bench.store("store", mode)
    let writer = try await bench.attach(store)
    for number in 0..<200 {
      try await store.set(
        [UInt8](repeating: UInt8(number), count: 100), forKey: Key("\(number % 7)"))
    }
    try await writer.flush()
    let follower = try await bench.follower("follower", mode)
    let before = follower.store
    for number in 0..<200 {
      try await store.set(
        [UInt8](repeating: UInt8(number), count: 90), forKey: Key("\(number % 9)"))
    }
    _ = try await store.compact()
    try await writer.flush()
    try await follower.catchUp()
    #expect(bench.events.rebases == 1)
    #expect(follower.store !== before)
    #expect(try await follower.store.contents() == store.contents())
    let error = await #expect(throws: StoreError.self) { try await before.value(forKey: "1") }
    #expect(error?.code == .closed)
    try await store.set([1], forKey: "after")
    try await writer.flush()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    try await store.close()
  }

  /// Regression: a follower was killed while it took a whole copy. The files of that copy prevented
  /// every later one, and each poll ended the follower.
  @Test(arguments: modes) func killedWholeCopyIsTakenAgain(
    mode: Store.Configuration.IOMode
  ) async throws {
    var bench = ArchiveBench()
    bench.configuration.heldBytesLimit = 0
    let store = try bench.store("store", mode)
    let writer = try await bench.attach(store)
    for number in 0..<200 {
      try await store.set(
        [UInt8](repeating: UInt8(number), count: 100), forKey: Key("\(number % 7)"))
    }
    try await writer.flush()
    try await bench.follower("follower.rebase", mode).close()
    let killed = try #require(try bench.storage.openDirectory("follower.rebase"))
    try killed.rename("MANIFEST", to: "RESTORING")
    let follower = try await bench.follower("follower", mode)
    for number in 0..<200 {
      try await store.set(
        [UInt8](repeating: UInt8(number), count: 90), forKey: Key("\(number % 9)"))
    }
    _ = try await store.compact()
    try await writer.flush()
    try await follower.catchUp()
    #expect(bench.events.rebases == 1)
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    try await store.close()
  }

  /// A change feed, a snapshot and a lock-free reader of a follower's store.
  @Test func readersSeeWhatArrives() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let follower = try await bench.follower()
    let snapshot = try await follower.store.snapshot()
    let next = Task { [store = follower.store] in
      let changes = store.changes(after: SequenceNumber(rawValue: 1))
      for try await change in changes where change.key == "b" { return change.sequence }
      return SequenceNumber.none
    }
    let wait = Task { try await follower.waitFor(SequenceNumber(rawValue: 2)) }
    let sequence = try await store.set([2], forKey: "b")
    try await writer.flush()
    try await follower.catchUp()
    try await wait.value
    #expect(try await next.value == sequence)
    #expect(try snapshot.value(forKey: "b") == nil)
    #expect(try await follower.store.value(forKey: "b") == [2])
    try await follower.close()
    try await store.close()
  }

  @Test(arguments: modes, [1, 2, 3] as [UInt64])
  func promotedFollowerGoesOn(mode: Store.Configuration.IOMode, seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let bench = ArchiveBench()
    var store = try bench.store("store0", mode)
    var writer = try await bench.attach(store)
    try await store.change(30, using: &random)
    try await writer.flush()
    for life in 1...4 {
      let follower = try await bench.follower(FilePath("store\(life)"), mode)
      let other = try await bench.follower("other", mode)
      try await store.change(Int.random(in: 1...50, using: &random), using: &random)
      if life % 2 == 0 { _ = try await follower.store.compact() }
      let archived = try await writer.flush()
      let state = try await store.contents()
      // These operations were not archived.
      try await store.change(5, using: &random)
      let (next, nextWriter) = try await follower.promote()
      #expect(try await next.contents() == state, "seed \(seed), life \(life)")
      #expect(try await next.statistics().lastSequence == archived)
      let error = await #expect(throws: ArchiveError.self) { try await writer.flush() }
      #expect(error?.code == .fenced)
      let refused = await #expect(throws: StoreError.self) { try await store.set([1], forKey: "x") }
      #expect(refused?.code == .fenced)
      try await next.change(20, using: &random)
      try await nextWriter.flush()
      try await other.catchUp()
      #expect(try await other.store.contents() == next.contents(), "seed \(seed), life \(life)")
      let restored = try await bench.restored(to: FilePath("restored\(life)"))
      #expect(try await restored.state == next.contents(), "seed \(seed), life \(life)")
      try await other.close()
      try await store.close()
      (store, writer) = (next, nextWriter)
    }
    #expect(bench.events.gaps == 1, "only the first life begins with a whole copy")
    #expect(bench.events.rebases == 0)
    // The earlier machine comes back.
    let old = try bench.store("store0", mode)
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(old) }
    #expect(error?.code == .diverged)
    try await old.close()
    try await store.close()
  }

  /// Two writers that were never promoted: the store of the first is restored to an older moment,
  /// and attached. What was archived after that moment is not part of the history any more.
  @Test func followerGoesBackWithARestoredWriter() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    let early = try await first.flush()
    try await store.set([2], forKey: "b")
    try await first.flush()
    let follower = try await bench.follower()
    try await first.detach()
    try await store.close()
    _ = try await bench.archive().restore(to: "again", at: .sequence(early), on: bench.storage)
    let again = try bench.store("again")
    let second = try await bench.attach(again)
    try await again.set([3], forKey: "c")
    try await second.flush()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == ["a": [1], "c": [3]])
    #expect(bench.events.rebases == 1)
    try await follower.close()
    try await second.detach()
    try await again.close()
  }

  /// The state from which the restored writer went on is the archive's only with its whole copy.
  @Test func followerHasWhatARestoreGivesAfterARestoredWriterDied() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    let early = try await first.flush()
    try await store.set([2], forKey: "b")
    try await first.flush()
    let follower = try await bench.follower()
    try await first.detach()
    try await store.close()
    _ = try await bench.archive().restore(to: "again", at: .sequence(early), on: bench.storage)
    let again = try bench.store("again")
    bench.objects.setScript { request in
      request.object.text.contains("/obj/") && request.verb != .get ? .refused(.unavailable) : nil
    }
    await #expect(throws: ArchiveError.self) { try await bench.attach(again) }
    bench.objects.setScript(nil)
    try await follower.catchUp()
    #expect(try await follower.store.contents() == bench.restored(to: "restored").state)
    try await follower.close()
    try await again.close()
  }

  /// A store that was restored to the newest moment goes on without another whole copy.
  @Test func restoreAndGoOnManyTimes() async throws {
    var random = SeededGenerator(seed: 1)
    let bench = ArchiveBench()
    var store = try bench.store("life0")
    try await store.change(200, using: &random)
    try await bench.attach(store).detach()
    let follower = try await bench.follower()
    for life in 1...20 {
      let state = try await store.contents()
      try await store.close()
      let path = FilePath("life\(life)")
      _ = try await bench.archive().restore(to: path, at: .latest, on: bench.storage)
      store = try bench.store(path)
      #expect(try await store.contents() == state, "life \(life)")
      let writer = try await bench.attach(store)
      try await store.change(10, using: &random)
      try await writer.detach()
      try await follower.catchUp()
      #expect(try await follower.store.contents() == store.contents(), "life \(life)")
    }
    #expect(bench.events.gaps == 1 && bench.events.rebases == 0)
    try await follower.close()
    try await store.close()
  }

  /// Bytes of the archive that are not the log of the state that they claim.
  @Test func divergenceEndsTheFollowerAtItsLastGoodState() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    try await store.set([2], forKey: "b")
    try await writer.flush()
    let commits = bench.objects.objects.keys.filter { "\($0)".contains("/log/") }
    let name = try #require(commits.max { "\($0)" < "\($1)" })
    let commit = try Commit(try #require(bench.objects[name]))
    var header = commit.header
    header.digest = StateDigest()
    bench.objects[name] = Commit.encoded(header, rawBytes: commit.rawBytes)
    // Who waits for the end finds the last good state.
    let waiter = Task { () async throws -> [UInt8]? in
      await #expect(throws: ArchiveError.self) {
        try await follower.waitFor(SequenceNumber(rawValue: 2))
      }
      return try await follower.store.value(forKey: "b")
    }
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.code == .diverged)
    #expect(try await waiter.value == nil)
    #expect(follower.freshness.failure?.code == .diverged)
    #expect(try await follower.store.contents() == ["a": [1]])
    let waiting = await #expect(throws: ArchiveError.self) {
      try await follower.waitFor(SequenceNumber(rawValue: 2))
    }
    #expect(waiting?.code == .diverged)
    try await follower.close()
    try await store.close()
  }

  /// Regression: between the end of the following and the opening of the last good state, reads got
  /// a state that the archived store never had.
  @Test func stateThatTheArchiveDoesNotHaveIsNotRead() async throws {
    let ended = Mutex<[Bool]>([])
    let place = Mutex<Follower?>(nil)
    var bench = ArchiveBench()
    bench.configuration.onEvent = { event in
      guard case .ended = event, let follower = place.withLock({ $0 }) else { return }
      ended.withLock { $0.append(follower.store.poison == nil) }
    }
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    place.withLock { $0 = follower }
    let following = try #require(await follower.store.following)
    let state = FollowedState(
      following, lastSequence: SequenceNumber(rawValue: 2), digest: StateDigest(), liveCount: 7)
    await #expect(throws: StoreError.self) { try await follower.store.advance(to: state) }
    let refusal = await #expect(throws: StoreError.self) {
      try await follower.store.value(forKey: "a")
    }
    #expect(refusal?.code == .corrupted)
    await #expect(throws: StoreError.self) { try await follower.store.snapshot() }
    // Regression: an update got the value.
    await #expect(throws: StoreError.self) {
      try await follower.store.update("a") { old in
        Issue.record("the update has read \(String(describing: old))")
        return old
      }
    }
    try await store.set([2], forKey: "a")
    try await writer.flush()
    await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(ended.withLock { $0 } == [true], "the last good state is open when the end is reported")
    #expect(try await follower.store.contents() == ["a": [1]])
    place.withLock { $0 = nil }
    try await follower.close()
    try await store.close()
  }

  /// The commits after the follower's state were removed, and another machine is to take over.
  @Test(arguments: [false, true]) func followerIsPromotedAfterACleaning(
    isClosed: Bool
  ) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.checkpoint()
    let follower = try await bench.follower()
    // Two commits: the first one is removed, and the follower has not read it.
    try await store.set([2], forKey: "b")
    try await writer.flush()
    try await store.set([2], forKey: "d")
    try await writer.checkpoint()
    let state = try await store.contents()
    var removed = 0
    for name in bench.objects.objects.keys {
      let text = "\(name)"
      if text.contains("/log/"), text < "users/log/\(writer.status.position)".padded {
        bench.objects[name] = nil
        removed += 1
      }
    }
    #expect(removed == 3, "the commits up to the follower's state, and the next one")
    if isClosed { try await writer.detach() }
    let (next, nextWriter) = try await follower.promote()
    #expect(try await next.contents() == state)
    try await next.set([3], forKey: "c")
    try await nextWriter.flush()
    #expect(try await bench.restored(to: "restored").state == next.contents())
    try await nextWriter.detach()
    try await next.close()
    try await store.close()
  }

  /// A writer dies within a cut of several commits. The follower reads them together with a state
  /// that it does not have yet.
  @Test(arguments: [false, true])
  func followerHasTheStateBeforeAPartOfACut(isContinued: Bool) async throws {
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 2000
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    var writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower("follower")
    try await store.set([2], forKey: "b")
    try await writer.flush()
    let state = try await store.contents()
    var random = SeededGenerator(seed: 1)
    for number in 0..<300 {
      let value = (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
      try await store.set(value, forKey: Key("\(number)"))
    }
    let sent = Mutex(0)
    bench.objects.setScript { request in
      guard request.verb == .create, request.object.text.contains("/log/") else { return nil }
      return sent.withLock { count in
        count += 1
        return count > 4 ? .refused(.unavailable) : nil
      }
    }
    await #expect(throws: ArchiveError.self) { try await writer.flush() }
    await writer.abandon()
    bench.objects.setScript(nil)
    if isContinued {
      writer = try await bench.attach(store)
      try await writer.flush()
      try await follower.catchUp()
      #expect(try await follower.store.contents() == store.contents())
      try await writer.detach()
      try await follower.close()
    } else {
      try await follower.catchUp()
      #expect(try await follower.store.contents() == state)
      let (next, nextWriter) = try await follower.promote()
      #expect(try await next.contents() == state)
      try await nextWriter.detach()
      try await next.close()
    }
    try await store.close()
  }

  @Test func storeOfAFollowerIsNotArchived() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    try await follower.catchUp()
    let error = await #expect(throws: ArchiveError.self) {
      try await bench.archive().attach(follower.store)
    }
    #expect(error?.storeError?.code == .invalidArgument)
    try await store.set([2], forKey: "a")
    try await writer.flush()
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }

  /// So many commits that their segments are newer than what a promoted store publishes at first.
  private static let partOfTheCut = 24

  /// A writer dies within a cut of several commits; the follower that has received some of them is
  /// promoted, and opened again.
  @Test func promotedStoreOpensAfterAPartOfACut() async throws {
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 2000
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower("follower")
    var random = SeededGenerator(seed: 1)
    for number in 0..<300 {
      let value = (0..<200).map { _ in UInt8.random(in: 0...255, using: &random) }
      try await store.set(value, forKey: Key("\(number)"))
    }
    let sent = Mutex(0)
    bench.objects.setScript { request in
      guard request.verb == .create, request.object.text.contains("/log/") else { return nil }
      return sent.withLock { count in
        count += 1
        return count > Self.partOfTheCut ? .refused(.unavailable) : nil
      }
    }
    await #expect(throws: ArchiveError.self) { try await writer.flush() }
    await writer.abandon()
    bench.objects.setScript(nil)
    try await follower.catchUp()
    let (next, nextWriter) = try await follower.promote()
    try await next.set([2], forKey: "b")
    try await nextWriter.detach()
    try await next.close()
    let again = try bench.store("follower")
    #expect(try await again.contents() == ["a": [1], "b": [2]])
    try await again.close()
    try await store.close()
  }

  /// A promotion waits for each of its requests, so it makes few.
  @Test func promotionTakesFewRequestsWithItsCheckOfTheStore() async throws {
    var bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for number in 0..<20 {
      try await store.set([1], forKey: Key("\(number)"))
      try await writer.flush()
    }
    bench.configuration.probesStore = true
    let follower = try await bench.follower()
    let before = bench.objects.trace.count
    let (next, nextWriter) = try await follower.promote()
    let requests = bench.objects.trace.dropFirst(before)
    #expect(requests.count <= 24, "\(requests.map { "\($0.verb) \($0.object)" })")
    #expect(requests.contains { $0.object.text.contains("/probe/") && $0.verb == .create })
    #expect(try await next.contents() == store.contents())
    try await nextWriter.detach()
    try await next.close()
    try await store.close()
  }

  /// The fence of a promoted writer is no state yet.
  @Test func promotedWriterIsNamedBeforeItsFirstCommit() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    let follower = try await bench.follower()
    let (next, nextWriter) = try await follower.promote()
    let info = try await bench.archive().info()
    #expect(info.term == writer.status.term + 1 && info.position == writer.status.position)
    try await nextWriter.detach()
    try await next.close()
    await writer.abandon()
    try await store.close()
  }

  /// Regression: the store of a promoted follower could not be resumed.
  @Test(arguments: modes)
  func promotedStoreIsSuspendedAndResumed(mode: Store.Configuration.IOMode) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let follower = try await bench.follower("follower", mode)
    let (next, nextWriter) = try await follower.promote()
    for number in 2...4 as ClosedRange<UInt8> {
      try await next.suspend()
      try await next.resume()
      try await next.set([number], forKey: "a")
      try await nextWriter.flush()
      #expect(try await bench.restored(to: FilePath("restored\(number)")).state == ["a": [number]])
    }
    try await nextWriter.detach()
    try await next.close()
    await writer.abandon()
    try await store.close()
  }

  /// Regression: the store followed, and a promotion ended both writers.
  @Test func sharedFollowerIsRefused() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    let archive = try await bench.archive()
    let error = await #expect(throws: ArchiveError.self) {
      _ = try await archive.follow(in: "shared", on: bench.storage, configuration: configuration)
    }
    #expect(error?.storeError?.code == .invalidArgument)
    #expect(try bench.storage.openDirectory("shared") == nil)
    let second = await #expect(throws: ArchiveError.self) {
      _ = try await archive.rejoin(in: "shared", on: bench.storage, configuration: configuration)
    }
    #expect(second?.storeError?.code == .invalidArgument)
    #expect(writer.status.failure == nil)
    try await writer.detach()
    try await store.close()
  }

  /// Regression: a follower whose store was suspended opened the directory again, with its locks.
  @Test func suspendedFollowerDoesNotBeginAgain() async throws {
    var bench = ArchiveBench()
    bench.configuration.heldBytesLimit = 0
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let follower = try await bench.follower()
    let before = follower.store
    // No replaced segment is kept, so the next commit is a whole copy.
    for number in 0..<50 as Range<UInt8> { try await store.set([number], forKey: "a") }
    try await store.compact()
    try await writer.flush()
    #expect(bench.events.gaps == 2)
    try await before.suspend()
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.storeError?.code == .suspended)
    #expect(bench.events.rebases == 0 && follower.store === before)
    let lock = try #require(try bench.storage.openDirectory("follower"))
    #expect(try lock.tryLock(shared: false), "the directory has no lock")
    lock.unlock()
    try await before.resume()
    try await follower.catchUp()
    #expect(bench.events.rebases == 1)
    #expect(try await follower.store.contents() == ["a": [49]])
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }

  @Test func suspendedFollowerGoesOn() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    let follower = try await bench.follower()
    try await follower.store.suspend()
    try await store.set([2], forKey: "a")
    try await writer.flush()
    let error = await #expect(throws: ArchiveError.self) { try await follower.catchUp() }
    #expect(error?.storeError?.code == .suspended)
    try await follower.store.resume()
    try await follower.catchUp()
    #expect(try await follower.store.contents() == ["a": [2]])
    try await follower.close()
    try await store.close()
  }
}

extension String {
  /// The name of a commit, whose number is padded to 15 digits.
  fileprivate var padded: String {
    let number = split(separator: "/").last.map(String.init) ?? ""
    return dropLast(number.count) + String(repeating: "0", count: 15 - number.count) + number
  }
}
