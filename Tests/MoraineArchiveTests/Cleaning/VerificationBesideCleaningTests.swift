import MoraineArchive
import MoraineEngine
import MoraineTesting
import Synchronization
import Testing

/// A verification of an archive that is cleaned at the same time.
@Suite(.timeLimit(.minutes(5))) struct VerificationBesideCleaningTests {
  private typealias Objects = [ObjectName: [UInt8]]

  /// Returns the objects of an archive, and those after a cleaning that keeps the newest state.
  ///
  /// - Parameter makesCheckpoint: whether the newest state is another one when the cleaning begins.
  private func archives(
    _ bench: ArchiveBench, makesCheckpoint: Bool
  ) async throws -> (before: Objects, after: Objects) {
    var random = SeededGenerator(seed: 21)
    var bench = bench
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    bench.configuration.commitBytes = 2000
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for round in 0..<6 {
      for _ in 0..<3 {
        try await store.change(8, using: &random)
        try await writer.flush()
      }
      if round % 2 == 1 { _ = try await store.compact() }
      try await writer.checkpoint()
      clock.advance(hours: 1)
    }
    for _ in 0..<3 {
      try await store.change(8, using: &random)
      try await writer.flush()
    }
    let before = bench.objects.objects
    if makesCheckpoint {
      try await store.change(20, using: &random)
      _ = try await store.compact()
      try await writer.checkpoint()
    }
    _ = try await bench.archive().clean(
      RetentionRule(moments: .zero, checkpoints: .zero, days: 0))
    let after = bench.objects.objects
    try await writer.detach()
    try await store.close()
    return (before, after)
  }

  /// Between any two requests for objects that it removes.
  @Test(arguments: [false, true], [false, true])
  func cleaningIsNoDamage(allStates: Bool, makesCheckpoint: Bool) async throws {
    let bench = ArchiveBench()
    let (before, after) = try await archives(bench, makesCheckpoint: makesCheckpoint)
    let removed = Set(before.keys).subtracting(after.keys)
    #expect(removed.contains { $0.text.hasPrefix("users/obj/") })
    let objects = bench.objects
    objects.objects = before
    let archive = try await bench.archive()
    let reads = Mutex(0)
    objects.setScript { request in
      if request.verb == .get, removed.contains(request.object) { reads.withLock { $0 += 1 } }
      return nil
    }
    let whole = try await archive.verify(allStates: allStates)
    let count = reads.withLock { $0 }
    #expect(count > 0 || !(allStates || makesCheckpoint))
    for number in stride(from: 1, through: count, by: max(1, count / 60)) {
      let gate = RequestGate()
      let reads = Mutex(0)
      objects.objects = before
      objects.setScript { request in
        guard request.verb == .get, removed.contains(request.object) else { return nil }
        let isDue = reads.withLock { reads in
          reads += 1
          return reads == number
        }
        return isDue ? .hang(gate) : nil
      }
      let verification = Task { try await archive.verify(allStates: allStates) }
      await gate.arrival()
      objects.objects = after
      gate.open()
      let info = try await verification.value
      #expect(info.position >= whole.position, "read \(number) of \(count)")
    }
    objects.setScript(nil)
  }

  /// The same objects are missing without a cleaning.
  @Test func missingSegmentOfAnOldStateIsDamage() async throws {
    let bench = ArchiveBench()
    let (before, after) = try await archives(bench, makesCheckpoint: false)
    let objects = bench.objects
    objects.objects = before
    let archive = try await bench.archive()
    var damagedCount = 0
    for name in before.keys where after[name] == nil && name.text.hasPrefix("users/obj/") {
      objects[name] = nil
      do throws(ArchiveError) {
        // A state without its contents was removed.
        _ = try await archive.verify(allStates: true)
      } catch {
        if error.code == .damaged { damagedCount += 1 }
      }
      objects[name] = before[name]
    }
    // The first copy has one segment at most, and its commit names it, too.
    #expect(damagedCount > 2)
  }

  /// Regression: a cleaning removes the list of a whole copy and its segments in any order, after
  /// the commit of the copy. A segment that was missing before the list was reported as damage.
  @Test func cleaningOfACopyWithoutACheckpointIsNoDamage() async throws {
    let bench = ArchiveBench()
    let gap = try await bench.makeLoneGap()
    let (objects, gate) = (bench.objects, RequestGate())
    let segment = try #require(gap.segments.first)
    objects.setScript { request in
      request.verb == .get && request.object == segment ? .hang(gate) : nil
    }
    let archive = try await bench.archive()
    let verification = Task { try await archive.verify(allStates: true) }
    await gate.arrival()
    let commit = objects[gap.commit]
    (objects[gap.commit], objects[segment]) = (nil, nil)
    gate.open()
    #expect(try await verification.value.checkpoint > 1)
    // Without a cleaning the same object is missing.
    objects[gap.commit] = commit
    let error = await #expect(throws: ArchiveError.self) {
      try await archive.verify(allStates: true)
    }
    #expect(error?.code == .damaged && error?.object == segment)
    try await gap.writer.detach()
    try await gap.store.close()
  }
}
