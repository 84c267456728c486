import MoraineArchive
import MoraineEngine
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A follower beside what other programs do to the archive at the same time.
@Suite(.timeLimit(.minutes(5))) struct FollowerRaceTests {
  /// Regression: the follower found the last commit of a writer that was alive, and then applied
  /// the next one too, which arrived in between. Its state was not that of the commit that it had
  /// found, and the promotion ended the follower.
  @Test func promotionBesideALiveWriterHasAllItsCommits() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    let writer = try await bench.attach(store)
    try await store.set([1], forKey: "a")
    try await writer.flush()
    let follower = try await bench.follower()
    let names = try ArchiveNames(root: ArchiveBench.root)
    try await store.set([2], forKey: "b")
    try await writer.flush()
    let first = names.commit(writer.status.position)
    try await store.set([3], forKey: "c")
    try await writer.flush()
    let second = names.commit(writer.status.position)
    let state = try await store.contents()
    let (firstBytes, secondBytes) = (bench.objects[first], bench.objects[second])
    (bench.objects[first], bench.objects[second]) = (nil, nil)
    let term = names.term(writer.status.term + 1)
    let (termGate, readGate) = (RequestGate(), RequestGate())
    let reads = Mutex(0)
    bench.objects.setScript { request in
      if request.verb == .create, request.object == term {
        reads.withLock { $0 = 0 }
        return .hang(termGate)
      }
      guard request.verb == .get, request.object == first else { return nil }
      let count = reads.withLock { count in
        count += 1
        return count
      }
      // The search for the last commit reads it first, and then the follower.
      return termGate.arrivalCount > 0 && count == 2 ? .hang(readGate) : nil
    }
    let promotion = Task { try await follower.promote() }
    await termGate.arrival()
    bench.objects[first] = firstBytes
    termGate.open()
    await readGate.arrival()
    bench.objects[second] = secondBytes
    readGate.open()
    let (next, nextWriter) = try await promotion.value
    bench.objects.setScript(nil)
    #expect(try await next.contents() == state)
    try await next.set([4], forKey: "d")
    try await nextWriter.flush()
    #expect(try await bench.restored(to: "restored").state == next.contents())
    try await nextWriter.detach()
    try await next.close()
    await writer.abandon()
    try await store.close()
  }

  /// Regression: a cleaning that removed the whole copy which a follower was reading ended the
  /// follower for good.
  @Test func cleaningBesideAWholeCopyDoesNotEndTheFollower() async throws {
    var bench = ArchiveBench()
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    bench.configuration.heldBytesLimit = 0
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for number in 0..<200 {
      let value = [UInt8](repeating: UInt8(number), count: 100)
      try await store.set(value, forKey: Key("\(number % 7)"))
    }
    try await writer.flush()
    let follower = try await bench.follower()
    for number in 0..<200 {
      let value = [UInt8](repeating: UInt8(number), count: 90)
      try await store.set(value, forKey: Key("\(number % 9)"))
    }
    _ = try await store.compact()
    try await writer.flush()
    let gate = RequestGate()
    let read = Mutex<ObjectName?>(nil)
    bench.objects.setScript { request in
      guard request.verb == .get, request.object.text.contains("/obj/") else { return nil }
      return read.withLock { name in
        guard name == nil else { return nil }
        name = request.object
        return .hang(gate)
      }
    }
    let catchUp = Task { try await follower.catchUp() }
    await gate.arrival()
    clock.advance(hours: 1)
    try await store.set([1], forKey: "after")
    _ = try await store.compact()
    try await writer.checkpoint()
    clock.advance(hours: 1)
    _ = try await bench.archive().clean(
      RetentionRule(moments: .zero, checkpoints: .zero, days: 0))
    let name = read.withLock { $0 }
    let copy = try #require(name)
    #expect(bench.objects[copy] == nil, "the cleaning has removed what the follower reads")
    gate.open()
    let error = await #expect(throws: ArchiveError.self) { try await catchUp.value }
    #expect(error?.code == .stateUnavailable)
    #expect(follower.freshness.failure == nil)
    bench.objects.setScript(nil)
    try await follower.catchUp()
    #expect(try await follower.store.contents() == store.contents())
    try await follower.close()
    try await writer.detach()
    try await store.close()
  }
}
