import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineTesting
import SystemPackage
import Testing

/// Stores that were restored are attached, while others write and clean the archive.
@Suite(.timeLimit(.minutes(5))) struct AttachAfterRestoreTests {
  /// A store of an old moment dies after its fence, and the commit that the fence names is gone.
  @Test func archiveGoesOnAfterAFenceWithoutABase() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.checkpoint()
    let old = writer.status.position
    for number in 0..<40 {
      try await store.set([UInt8(number)], forKey: "b")
      try await writer.flush()
    }
    try await writer.checkpoint()
    let state = try await store.contents()
    let newest = writer.status.position
    await writer.abandon()
    try await store.close()
    for (name, _) in bench.objects.objects where name.text.contains("/log/") {
      let number = UInt64(name.text.split(separator: "/").last ?? "") ?? 0
      if number < newest { bench.objects[name] = nil }
    }
    _ = try await bench.archive().restore(to: "old", at: .position(old), on: bench.storage)
    let early = try bench.store("old")
    bench.objects.setScript { request in
      request.object.text.hasPrefix("users/obj/") ? .refused(.unavailable) : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(early) }
    #expect(error?.code == .unavailable)
    bench.objects.setScript(nil)
    try await early.close()
    let restored = try await bench.restored(to: "new")
    #expect(restored.state == state)
    let next = try bench.store("new")
    let last = try await bench.attach(next)
    try await next.set([9], forKey: "c")
    try await last.flush()
    #expect(try await bench.restored(to: "again").state == next.contents())
    try await last.detach()
    try await next.close()
  }

  /// Archives a store with two keys, closes it, and returns one that is restored to the state with
  /// the first key.
  private func storeOfAnEarlierState(_ name: FilePath, _ bench: ArchiveBench) async throws -> Store
  {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    let early = try await writer.flush()
    try await store.set([2], forKey: "b")
    try await writer.detach()
    try await store.close()
    _ = try await bench.archive().restore(to: name, at: .sequence(early), on: bench.storage)
    return try bench.store(name)
  }

  /// Attaches a restored store, whose writer dies between its fence and its whole copy.
  private func attachUntilTheCopy(_ store: Store, _ bench: ArchiveBench) async {
    bench.objects.setScript { request in
      request.object.text.contains("/obj/") && request.verb != .get ? .refused(.unavailable) : nil
    }
    await #expect(throws: ArchiveError.self) { try await bench.attach(store) }
    bench.objects.setScript(nil)
  }

  /// A restored writer dies between its fence and its whole copy. A follower, and a store that is
  /// restored then, have the state before the fence.
  @Test(arguments: [false, true])
  func newestStateIsContinuedAfterARestoredWriterDied(byAFollower: Bool) async throws {
    let bench = ArchiveBench()
    let dead = try await storeOfAnEarlierState("dead", bench)
    var follower: Follower?
    if byAFollower { follower = try await bench.follower() }
    await attachUntilTheCopy(dead, bench)
    try await dead.close()
    let next: Store
    let writer: ArchiveWriter
    if let follower {
      try await follower.catchUp()
      (next, writer) = try await follower.promote()
    } else {
      _ = try await bench.archive().restore(to: "next", at: .latest, on: bench.storage)
      next = try bench.store("next")
      writer = try await bench.attach(next)
    }
    try await next.set([3], forKey: "c")
    try await writer.flush()
    #expect(try await next.contents() == ["a": [1], "b": [2], "c": [3]])
    #expect(try await bench.restored(to: "restored").state == next.contents())
    try await writer.detach()
    try await next.close()
  }

  /// Regression: a life that ended at its fence, before its whole copy, entered the list of lives
  /// of each store that was made from the archive later. Its epoch is used by no later life.
  @Test(arguments: [false, true])
  func lifeThatDiedAtItsFenceIsNotContinued(byAFollower: Bool) async throws {
    let bench = ArchiveBench()
    let dead = try await storeOfAnEarlierState("dead", bench)
    let deadCut = try await dead.logCut()
    let deadEpoch = try #require(deadCut).head.epoch
    await attachUntilTheCopy(dead, bench)
    try await dead.close()
    let store = try bench.store()
    let again = try await bench.attach(store)
    try await store.set([3], forKey: "c")
    try await again.detach()
    try await store.close()
    let gaps = bench.events.gaps
    var strict = bench
    strict.configuration.mustContinueNewestState = true
    let next: Store
    let writer: ArchiveWriter
    if byAFollower {
      let follower = try await bench.follower("next")
      (next, writer) = try await follower.promote()
    } else {
      _ = try await bench.archive().restore(to: "next", at: .latest, on: bench.storage)
      next = try bench.store("next")
      writer = try await strict.attach(next)
    }
    let cut = try await next.logCut()
    let epoch = try #require(cut).head.epoch
    #expect(epoch > deadEpoch)
    try await next.set([4], forKey: "d")
    try await writer.flush()
    #expect(bench.events.gaps == gaps, "the log goes on without another whole copy")
    #expect(try await next.contents() == ["a": [1], "b": [2], "c": [3], "d": [4]])
    #expect(try await bench.restored(to: "restored").state == next.contents())
    try await writer.detach()
    try await next.close()
  }

  /// Regression: a moment between the fence of a restored store and its whole copy was restored as
  /// the older state from which that store went on. The copy follows, or never comes.
  @Test(arguments: [false, true])
  func momentBeforeTheCopyOfARestoredStoreHasTheStateBefore(isCopied: Bool) async throws {
    var bench = ArchiveBench()
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    let next = try await storeOfAnEarlierState("next", bench)
    clock.advance(hours: 1)
    let moment = clock.milliseconds
    bench.objects.setScript { request in
      guard request.verb != .get else { return nil }
      // A commit has its time when it is sent.
      if request.object.text.contains("/log/") { clock.advance(hours: 1) }
      return !isCopied && request.object.text.contains("/obj/") ? .refused(.unavailable) : nil
    }
    if isCopied {
      try await bench.attach(next).detach()
    } else {
      await #expect(throws: ArchiveError.self) { try await bench.attach(next) }
    }
    bench.objects.setScript(nil)
    try await next.close()
    let restored = try await bench.restored(.time(milliseconds: moment), to: "restored")
    #expect(restored.state == ["a": [1], "b": [2]])
    let newest = try await bench.restored(to: "newest")
    let expected: ArchiveBench.State = isCopied ? ["a": [1]] : ["a": [1], "b": [2]]
    #expect(newest.state == expected)
  }

  /// A restored store makes a checkpoint before it writes, and a cleaning keeps nothing else.
  @Test func fenceThatACheckpointHasIsAState() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await first.detach()
    try await store.close()
    _ = try await bench.archive().restore(to: "second", at: .latest, on: bench.storage)
    let second = try bench.store("second")
    let writer = try await bench.attach(second)
    try await writer.checkpoint()
    _ = try await bench.archive().clean(
      RetentionRule(moments: .zero, checkpoints: .zero, days: 0))
    await writer.abandon()
    let again = try await bench.attach(second)
    try await second.set([2], forKey: "b")
    try await again.flush()
    await again.abandon()
    try await second.close()
    _ = try await bench.archive().restore(to: "third", at: .latest, on: bench.storage)
    let third = try bench.store("third")
    let last = try await bench.attach(third)
    #expect(try await third.contents() == ["a": [1], "b": [2]])
    try await last.detach()
    try await third.close()
  }

  /// A life of the store that no checkpoint has yet is left again for a moment before it.
  @Test func restoreOfAnEarlierMomentHasAnEpochOfItsOwn() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    let good = try await first.flush()
    try await first.detach()
    try await store.close()
    _ = try await bench.archive().restore(to: "second", at: .latest, on: bench.storage)
    let second = try bench.store("second")
    let writer = try await bench.attach(second)
    for number in 0..<5 {
      try await second.set([UInt8(number)], forKey: "bad")
      try await writer.flush()
    }
    await writer.abandon()
    try await second.close()
    _ = try await bench.archive().restore(to: "third", at: .sequence(good), on: bench.storage)
    let third = try bench.store("third")
    let last = try await bench.attach(third)
    for number in 0..<20 { try await third.set([UInt8(number)], forKey: "good") }
    try await last.flush()
    #expect(try await bench.restored(to: "restored").state == ["a": [1], "good": [19]])
    try await last.detach()
    try await third.close()
  }

  /// Regression: two lives have the numbers 4 to 6, and the state of the life that was left was
  /// restored. The later life is archived at once when it was written, or while it is; the earlier
  /// one may have a checkpoint at its end.
  @Test(arguments: [false, true], [false, true])
  func numberIsRestoredInTheHistoryOfTheNewestState(
    isShippedAtOnce: Bool, endsInACheckpoint: Bool
  ) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    for value in 1...6 as ClosedRange<UInt8> {
      try await store.set([value], forKey: "a")
      try await first.flush()
    }
    if endsInACheckpoint { try await first.checkpoint() }
    try await first.detach()
    try await store.close()
    let left = SequenceNumber(rawValue: 3)
    _ = try await bench.archive().restore(to: "next", at: .sequence(left), on: bench.storage)
    let next = try bench.store("next")
    var states = [[1], [2], [3]] as [[UInt8]]
    var second: ArchiveWriter?
    if !isShippedAtOnce { second = try await bench.attach(next) }
    for value in 14...18 as ClosedRange<UInt8> {
      #expect(try await next.set([value], forKey: "a").rawValue == UInt64(value) - 10)
      try await second?.flush()
      states.append([value])
    }
    if second == nil { second = try await bench.attach(next) }
    try await second?.detach()
    try await next.close()
    for (index, state) in states.enumerated() {
      let number = SequenceNumber(rawValue: UInt64(index) + 1)
      let restored = try await bench.restored(.sequence(number), to: FilePath("r\(number)"))
      #expect(restored.state == ["a": state] && restored.sequence == number)
    }
  }

  /// The newest state ends before a number that the life has which was left.
  @Test func numberOfALifeThatWasLeftIsRefusedInWords() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    for value in 1...6 as ClosedRange<UInt8> {
      try await store.set([value], forKey: "a")
      try await first.flush()
    }
    try await first.detach()
    try await store.close()
    let left = SequenceNumber(rawValue: 3)
    _ = try await bench.archive().restore(to: "next", at: .sequence(left), on: bench.storage)
    let next = try bench.store("next")
    try await next.set([14], forKey: "a")
    try await bench.attach(next).detach()
    try await next.close()
    let error = await #expect(throws: ArchiveError.self) {
      try await bench.restored(.sequence(SequenceNumber(rawValue: 6)), to: "refused")
    }
    #expect(error?.code == .stateUnavailable && error?.message.contains("'--position'") == true)
    let number = SequenceNumber(rawValue: 4)
    #expect(try await bench.restored(.sequence(number), to: "restored").state == ["a": [14]])
  }

  /// Regression: a lost copy of the newest state refused each number of a life before it.
  @Test func lostCopyOfTheNewestStateRefusesNoEarlierNumber() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let first = try await bench.attach(store)
    for value in 1...3 as ClosedRange<UInt8> {
      try await store.set([value], forKey: "a")
      try await first.flush()
    }
    try await first.detach()
    try await store.close()
    _ = try await bench.archive().restore(to: "next", at: .latest, on: bench.storage)
    let next = try bench.store("next")
    let second = try await bench.attach(next)
    try await next.set([4], forKey: "a")
    try await second.checkpoint()
    let before = Set(bench.objects.objects.keys)
    try await next.set([5], forKey: "a")
    try await second.checkpoint()
    try await second.detach()
    try await next.close()
    let added = bench.objects.objects.keys.filter { !before.contains($0) }
    let copies = added.filter { $0.text.contains("/obj/") }
    #expect(!copies.isEmpty)
    for name in copies { bench.objects.objects[name] = nil }
    let number = SequenceNumber(rawValue: 2)
    #expect(try await bench.restored(.sequence(number), to: "restored").state == ["a": [2]])
  }

  /// The directory is copied while its store is attached. The copy goes on by itself, beyond what
  /// the archive has, and the segment at whose end the archive ends is not in it.
  @Test func copyThatWentOnIsRefused() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    try bench.storage.copyDirectory("store", to: "copy")
    var random = SeededGenerator(seed: 1)
    // Bytes that cannot be compressed: two values fill a segment.
    let value = (0..<1500).map { _ in UInt8.random(in: .min ... .max, using: &random) }
    for number in 0..<9 { try await store.set(value, forKey: Key("original \(number)")) }
    try await writer.flush()
    let copy = try bench.store("copy")
    for number in 0..<30 { try await copy.set(value, forKey: Key("copy \(number)")) }
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(copy) }
    #expect(error?.code == .diverged)
    try await store.set([2], forKey: "a")
    try await writer.flush()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await copy.close()
    try await writer.detach()
    try await store.close()
  }

  /// The earlier writer compacts its store after it was restored on another machine. Its next
  /// checkpoint, of the state that was restored, arrives before the other machine attaches, or even
  /// after that.
  @Test(arguments: [false, true])
  func checkpointOfTheEarlierWriterDoesNotUseSegmentsOfTheNextOne(isLate: Bool) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    var random = SeededGenerator(seed: 1)
    try await store.change(300, using: &random)
    let writer = try await bench.attach(store)
    try await writer.checkpoint()
    try await store.change(10, using: &random)
    try await writer.flush()
    _ = try await bench.restored(to: "next")
    try await store.compact()
    let before = Set(bench.objects.objects.keys)
    try await writer.checkpoint()
    await writer.abandon()
    try await store.close()
    let late = bench.objects.objects.filter { name, _ in
      name.text.contains("/chk/") && !before.contains(name)
    }
    #expect(late.count == 1)
    if isLate { for name in late.keys { bench.objects[name] = nil } }
    let next = try bench.store("next")
    let second = try await bench.attach(next)
    if isLate { for (name, bytes) in late { bench.objects[name] = bytes } }
    try await next.change(300, using: &random)
    try await second.flush()
    #expect(try await bench.restored(to: "restored").state == next.contents())
    try await second.detach()
    try await next.close()
  }

  /// The archive goes on while it is restored in the place of an old copy.
  @Test func adoptedStoreDoesNotTakeBackWhatWasArchivedSince() async throws {
    var bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    try await writer.flush()
    _ = try await bench.restored(to: "adopted")
    try await store.set([2], forKey: "a")
    try await writer.flush()
    bench.configuration.mustContinueNewestState = true
    let adopted = try bench.store("adopted")
    let error = await #expect(throws: ArchiveError.self) { try await bench.attach(adopted) }
    #expect(error?.code == .diverged)
    #expect(try await bench.restored(to: "newest").state == ["a": [2]])
    try await adopted.close()
    try await store.close()
  }

  /// A program on another machine attaches an old copy again and again.
  @Test func refusedAttachDoesNotFenceTheWriter() async throws {
    let bench = ArchiveBench()
    var store = try bench.store()
    try await store.set([1], forKey: "a")
    try await bench.attach(store).detach()
    try await store.close()
    try bench.storage.copyDirectory("store", to: "copy")
    store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([2], forKey: "a")
    try await writer.flush()
    let copy = try bench.store("copy")
    for _ in 0..<3 {
      let error = await #expect(throws: ArchiveError.self) { try await bench.attach(copy) }
      #expect(error?.code == .diverged)
    }
    try await store.set([3], forKey: "a")
    try await writer.flush()
    #expect(try await bench.restored(to: "restored").state == ["a": [3]])
    try await copy.close()
    try await writer.detach()
    try await store.close()
  }

  /// An object of the newest checkpoint was lost.
  @Test func nextCheckpointUploadsALostSegmentAgain() async throws {
    let bench = ArchiveBench()
    var store = try bench.store()
    for number in 0..<200 {
      try await store.set([UInt8](repeating: UInt8(number), count: 60), forKey: Key("\(number)"))
    }
    var writer = try await bench.attach(store)
    try await writer.checkpoint()
    try await writer.detach()
    try await store.close()
    let objects = bench.objects.objects.keys.filter { $0.text.contains("/obj/") }
    let sizes = objects.map { ($0, bench.objects[$0]?.count ?? 0) }
    let largest = try #require(sizes.max { $0.1 < $1.1 })
    bench.objects[largest.0] = nil
    store = try bench.store()
    writer = try await bench.attach(store)
    try await store.set([1], forKey: "later")
    try await writer.checkpoint()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// A store continues one archive. After a compaction nothing shows that it continues an earlier
  /// one, and the error does not say that the store is a copy.
  @Test func storeThatWasArchivedElsewhereSaysSo() async throws {
    let (first, second) = (ArchiveBench(), ArchiveBench())
    let store = try first.store()
    try await store.set([1], forKey: "a")
    try await first.attach(store).detach()
    try await second.attach(store).detach()
    try await store.set([2], forKey: "a")
    // Without a compaction the log shows it.
    try await first.attach(store).detach()
    try await second.attach(store).detach()
    try await store.set([3], forKey: "a")
    try await store.compact()
    let error = await #expect(throws: ArchiveError.self) { try await first.attach(store) }
    #expect(error?.code == .diverged)
    #expect(error?.message.contains("another archive") == true)
    #expect(error?.message.contains("adopt") == false, "an older state must not take its place")
    try await second.attach(store).detach()
    #expect(try await second.restored(to: "restored").state == ["a": [3]])
    try await store.close()
  }

  /// Regression: a store that was suspended while it was attached counted as one that had written
  /// no archive, and so as a copy of itself.
  @Test(arguments: [false, true])
  func storeThatLeavesItsDirectoryIsNoCopy(closes: Bool) async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    for number in 0..<50 as Range<UInt8> { try await store.set([number], forKey: "a") }
    try await bench.attach(store).detach()
    try await store.set([50], forKey: "a")
    try await store.compact()
    let gate = RequestGate()
    bench.objects.setScript { request in
      request.verb == .get && request.object.text.contains("/log/") ? .hang(gate) : nil
    }
    let attaching = Task { try await bench.attach(store) }
    await gate.arrival()
    if closes { try await store.close() } else { try await store.suspend() }
    bench.objects.setScript(nil)
    gate.open()
    let error = await #expect(throws: ArchiveError.self) { try await attaching.value }
    #expect(
      error?.storeError?.code == (closes ? .closed : .suspended), "\(String(describing: error))")
    guard !closes else { return }
    try await store.resume()
    try await bench.attach(store).detach()
    #expect(try await bench.restored(to: "restored").state == ["a": [50]])
    try await store.close()
  }
}
