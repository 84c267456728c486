import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A clock that a test sets.
final class LabelClock: Sendable {
  private let now = Atomic<UInt64>(1_700_000_000_000)
  var milliseconds: UInt64 { now.load(ordering: .relaxed) }
  func advance(hours: UInt64) { now.add(hours * 3_600_000, ordering: .relaxed) }
}

/// What a cleaning removes from an archive, and what stays.
@Suite(.timeLimit(.minutes(5))) struct CleaningTests {
  private struct Known {
    let position: UInt64
    let sequence: SequenceNumber
    let milliseconds: UInt64
    let state: ArchiveBench.State
    let isCheckpoint: Bool
  }

  private let clock = LabelClock()
  private var bench = ArchiveBench()

  init() {
    let clock = clock
    bench.configuration.milliseconds = { clock.milliseconds }
    bench.configuration.commitBytes = 2000
  }

  /// Writes a store for some hours: three commits an hour, and a checkpoint.
  private func write(
    _ store: Store, _ writer: ArchiveWriter, hours: Int, seed: UInt64
  ) async throws -> [Known] {
    var random = SeededGenerator(seed: seed)
    var known: [Known] = []
    for hour in 0..<hours {
      for commit in 0..<3 {
        try await store.change(Int.random(in: 1...12, using: &random), using: &random)
        if hour % 5 == 3, commit == 1 { _ = try await store.compact() }
        let sequence = try await writer.flush()
        if commit == 2 { try await writer.checkpoint() }
        known.append(
          Known(
            position: writer.status.position, sequence: sequence,
            milliseconds: clock.milliseconds, state: try await store.contents(),
            isCheckpoint: commit == 2))
      }
      clock.advance(hours: 1)
    }
    return known
  }

  /// Restores a state of each kind that is listed, and checks that the others are refused.
  ///
  /// - Parameter first: the position from which on the cleaning has kept each moment.
  private func check(
    _ known: [Known], _ name: String, from first: UInt64
  ) async throws {
    let checkpoints = try await bench.archive().checkpoints()
    let base = try #require(checkpoints.last { $0.extent == .moments })
    #expect(base.position == first)
    let alone = Set(checkpoints.filter { $0.extent == .state }.map(\.position))
    var (restoredCount, refusedCount) = (0, 0)
    for (index, moment) in known.enumerated() {
      let stays = moment.position >= base.position || alone.contains(moment.position)
      let points: [RestorePoint] = [.position(moment.position), .sequence(moment.sequence)]
      for (way, point) in points.enumerated() {
        let path = FilePath("\(name)-\(index)-\(way)")
        if stays {
          #expect(try await bench.restored(point, to: path).state == moment.state)
          restoredCount += 1
        } else {
          let error = await #expect(throws: ArchiveError.self) {
            try await bench.restored(point, to: path)
          }
          #expect(error?.code == .stateUnavailable, "\(moment.position)")
          refusedCount += 1
        }
      }
    }
    #expect(restoredCount > 0 && (refusedCount > 0) == (base.number > 1))
    let latest = try await bench.restored(to: FilePath("\(name)-latest"))
    #expect(latest.state == known.last?.state)
    _ = try await bench.archive().verify(allStates: true)
  }

  @Test(arguments: [false, true])
  func keptMomentsAreRestoredAndOthersRefused(byTheWriter: Bool) async throws {
    var bench = bench
    let rule = RetentionRule(moments: .seconds(4 * 3600), checkpoints: .seconds(8 * 3600), days: 3)
    let reports = Mutex<[CleaningReport]>([])
    if byTheWriter { bench.configuration.retention = rule }
    bench.configuration.onEvent = { event in
      if case .cleaned(let report) = event { reports.withLock { $0.append(report) } }
    }
    let store = try bench.store()
    let writer = try await bench.attach(store)
    var known = try await write(store, writer, hours: 60, seed: 7)
    let before = bench.objects.objects.count
    try await writer.detach()
    let report = try await bench.archive().clean(rule)
    if byTheWriter {
      #expect(reports.withLock { $0.contains { $0.commitCount > 0 && $0.objectCount > 0 } })
    } else {
      #expect(report.commitCount > 100 && report.objectCount > 100)
      #expect(bench.objects.objects.count == before - report.commitCount - report.objectCount + 1)
    }
    try await check(known, "one", from: report.firstPosition)
    #expect(try await bench.archive().clean(rule).objectCount == 0, "nothing is left to remove")
    let last = try #require(known.last).milliseconds
    let oldest = try #require(known.first { $0.position >= report.firstPosition })
    #expect(last - oldest.milliseconds >= 4 * 3_600_000, "the moments of four hours")
    // The store goes on, with another writer.
    let second = try await bench.attach(store)
    known += try await write(store, second, hours: 10, seed: 8)
    let later = try await bench.archive().clean(rule)
    try await check(known, "two", from: later.firstPosition)
    try await second.detach()
    try await store.close()
  }

  @Test func momentBetweenTwoKeptCheckpointsIsRefusedInWords() async throws {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let known = try await write(store, writer, hours: 80, seed: 3)
    _ = try await bench.archive().clean(
      RetentionRule(moments: .seconds(3600), checkpoints: .zero, days: 3))
    let checkpoints = try await bench.archive().checkpoints()
    let alone = try #require(checkpoints.first { $0.extent == .state })
    let exact = try await bench.restored(.time(milliseconds: alone.milliseconds), to: "exact")
    #expect(exact.sequence == alone.sequence)
    #expect(known.contains { $0.sequence == alone.sequence && $0.state == exact.state })
    let error = await #expect(throws: ArchiveError.self) {
      try await bench.restored(.time(milliseconds: alone.milliseconds + 1), to: "later")
    }
    #expect(error?.code == .stateUnavailable)
    #expect(error?.message.contains("position \(alone.position)") == true, "\(error as Any)")
    try await writer.detach()
    try await store.close()
  }

  @Test func refusalNamesNoStateThatWasRemoved() async throws {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let known = try await write(store, writer, hours: 12, seed: 14)
    _ = try await bench.archive().clean(
      RetentionRule(moments: .zero, checkpoints: .zero, days: 0))
    for (index, moment) in known.enumerated()
    where moment.milliseconds < known[known.count - 1].milliseconds {
      let points: [RestorePoint] = [
        .position(moment.position), .time(milliseconds: moment.milliseconds),
      ]
      for (way, point) in points.enumerated() {
        let error = await #expect(throws: ArchiveError.self) {
          try await bench.restored(point, to: FilePath("\(index)-\(way)"))
        }
        #expect(error?.code == .stateUnavailable)
        #expect(error?.message.contains("nearest older state") == false, "\(error as Any)")
      }
    }
    try await writer.detach()
    try await store.close()
  }

  @Test func dryRunRemovesNothing() async throws {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let known = try await write(store, writer, hours: 20, seed: 4)
    let rule = RetentionRule(moments: .seconds(3600), checkpoints: .zero, days: 0)
    let before = bench.objects.objects
    let planned = try await bench.archive().clean(rule, isDryRun: true)
    #expect(bench.objects.objects == before)
    #expect(planned.commitCount > 0 && planned.objectCount > 0)
    #expect(try await bench.archive().clean(rule) == planned)
    try await check(known, "after", from: planned.firstPosition)
    try await writer.detach()
    try await store.close()
  }

  /// A cleaner in another process, while the writer uploads.
  @Test func objectsOfAnUploadStay() async throws {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    _ = try await write(store, writer, hours: 5, seed: 5)
    for number in 0..<200 { try await store.set([UInt8(number)], forKey: Key("n\(number)")) }
    let gate = RequestGate()
    bench.objects.setScript { request in
      request.verb == .create && request.object.text.hasPrefix("users/chk/") ? .hang(gate) : nil
    }
    let upload = Task { try await writer.checkpoint() }
    await gate.arrival()
    let rule = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    let report = try await bench.archive().clean(rule)
    #expect(report.objectCount > 0)
    gate.open()
    try await upload.value
    bench.objects.setScript(nil)
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// A fenced writer has uploaded objects, and its checkpoint was not created.
  @Test func objectsOfAFencedWriterAreRemovedAfterTheNextCheckpoint() async throws {
    var random = SeededGenerator(seed: 1)
    let store = try bench.store()
    let first = try await bench.attach(store)
    try await store.change(50, using: &random)
    bench.objects.setScript { request in
      request.verb == .create && request.object.text.hasPrefix("users/chk/")
        ? .refused(.unavailable) : nil
    }
    do { try await first.checkpoint() } catch {}
    bench.objects.setScript(nil)
    await first.abandon()
    let second = try await bench.attach(store)
    let rule = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    let early = try await bench.archive().clean(rule)
    #expect(early.objectCount == 0 && early.waitsForCheckpoint)
    try await store.change(50, using: &random)
    try await second.checkpoint()
    let late = try await bench.archive().clean(rule)
    #expect(late.objectCount > 0 && !late.waitsForCheckpoint)
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await second.detach()
    try await store.close()
  }

  @Test func missingObjectOfAKeptStateStopsTheCleaning() async throws {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    _ = try await write(store, writer, hours: 10, seed: 6)
    let rule = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    var refusals = 0
    for name in bench.objects.objects.keys where name.text.hasPrefix("users/obj/") {
      let objects = bench.objects
      let bytes = objects[name]
      objects[name] = nil
      let before = bench.objects.objects
      do {
        // The object may be one that is removed.
        _ = try await bench.archive().clean(rule, isDryRun: true)
        let path = FilePath("without-\(name.parts[3])")
        #expect(try await bench.restored(to: path).state == store.contents())
      } catch let error as ArchiveError {
        refusals += 1
        #expect(error.code == .damaged)
        #expect(bench.objects.objects == before)
        await #expect(throws: ArchiveError.self) { try await bench.archive().clean(rule) }
        #expect(bench.objects.objects == before)
      }
      objects[name] = bytes
    }
    #expect(refusals > 0)
    try await writer.detach()
    try await store.close()
  }

  @Test func missingPermissionIsReportedOnce() async throws {
    var bench = bench
    bench.configuration.retention = RetentionRule(
      moments: .zero, checkpoints: .zero, days: 0)
    let events = Mutex<[ArchiveError]>([])
    bench.configuration.onEvent = { event in
      if case .cleaningFailed(let error) = event { events.withLock { $0.append(error) } }
    }
    let store = try bench.store()
    let writer = try await bench.attach(store)
    bench.objects.setScript { $0.verb == .remove ? .refused(.denied) : nil }
    _ = try await write(store, writer, hours: 6, seed: 9)
    try await writer.detach()
    #expect(events.withLock { $0.map(\.code) } == [.unavailable])
    #expect(events.withLock { $0.first?.underlying?.code } == .denied)
    try await store.close()
  }

  /// A writer that ended right after a checkpoint, of which only the newest state was kept.
  @Test func storeAttachesAfterACleaningThatKeepsOneState() async throws {
    var random = SeededGenerator(seed: 1)
    var store = try bench.store()
    let writer = try await bench.attach(store)
    let known = try await write(store, writer, hours: 6, seed: 10)
    let position = writer.status.position
    await writer.abandon()
    let rule = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
    _ = try await bench.archive().clean(rule)
    try await store.close()
    store = try bench.store()
    let second = try await bench.attach(store)
    #expect(try await bench.restored(to: "restored").state == known.last?.state)
    #expect(second.status.position == position + 1, "a fence, and no whole copy")
    try await store.change(20, using: &random)
    try await second.flush()
    #expect(try await bench.restored(to: "again").state == store.contents())
    try await second.detach()
    try await store.close()
  }

  /// A store that was restored from a state whose commits were removed later.
  @Test func restoredStoreAttachesAfterItsCommitsWereRemoved() async throws {
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let known = try await write(store, writer, hours: 30, seed: 11)
    try await writer.detach()
    try await store.close()
    _ = try await bench.restored(.position(known[4].position), to: "older")
    _ = try await bench.archive().clean(
      RetentionRule(moments: .seconds(3600), checkpoints: .zero, days: 0))
    let older = try bench.store("older")
    bench.objects.clearTrace()
    let second = try await bench.attach(older)
    #expect(bench.objects.traffic.requestCount < 150)
    #expect(try await bench.restored(to: "restored").state == known[4].state)
    try await second.detach()
    try await older.close()
  }

  /// A writer that ended between a whole copy and its checkpoint.
  ///
  /// - Parameter meetsAWrongAnswer: whether the first read of the list of the copy's segments gives
  ///   other bytes.
  @Test(arguments: [false, true])
  func gapWithoutACheckpointStays(meetsAWrongAnswer: Bool) async throws {
    let gap = try await bench.makeLoneGap()
    if meetsAWrongAnswer {
      let bytes = try #require(bench.objects[gap.contents])
      bench.objects[gap.contents] = Array("<html></html>".utf8)
      let report = try await bench.archive().clean()
      #expect(report.objectCount == 0 && report.damagedContents == gap.contents)
      // What the command advises finds it, and a verification of the newest state does not.
      _ = try await bench.archive().verify()
      let error = await #expect(throws: ArchiveError.self) {
        try await bench.archive().verify(allStates: true)
      }
      #expect(error?.code == .damaged && error?.object == gap.contents)
      bench.objects[gap.contents] = bytes
    }
    let report = try await bench.archive().clean()
    #expect(report.damagedContents == nil)
    #expect(try await bench.restored(.position(gap.position), to: "gap").state == gap.state)
    #expect(try await bench.restored(to: "latest").state == gap.store.contents())
    try await gap.writer.detach()
    try await gap.store.close()
  }

  /// Regression: a verification of all states began after the first checkpoint.
  @Test func copyBeforeTheFirstCheckpointIsVerified() async throws {
    let store = try bench.store()
    try await store.set([1], forKey: "x")
    bench.refuseCheckpoints()
    await #expect(throws: ArchiveError.self) { try await bench.attach(store) }
    bench.objects.setScript(nil)
    let writer = try await bench.attach(store)
    try await store.set([2], forKey: "x")
    try await writer.checkpoint()
    let contents = try bench.contents(ofCommit: 2)
    let bytes = try #require(bench.objects[contents])
    bench.objects[contents] = Array("<html></html>".utf8)
    #expect(try await bench.archive().clean().damagedContents == contents)
    _ = try await bench.archive().verify()
    let error = await #expect(throws: ArchiveError.self) {
      try await bench.archive().verify(allStates: true)
    }
    #expect(error?.code == .damaged && error?.object == contents)
    bench.objects[contents] = bytes
    _ = try await bench.archive().verify(allStates: true)
    try await writer.detach()
    try await store.close()
  }

  /// Regression: a cleaning removes the list of a whole copy and its segments in any order. A
  /// segment that was missing before the list was reported as damage.
  @Test func copyThatIsRemovedWhileItIsRestoredIsRefusedInWords() async throws {
    let bench = bench
    let gap = try await bench.makeLoneGap()
    let (objects, gate) = (bench.objects, RequestGate())
    let segment = try #require(gap.segments.first)
    objects.setScript { request in
      request.verb == .get && request.object == segment ? .hang(gate) : nil
    }
    let restore = Task { _ = try await bench.restored(.position(gap.position), to: "removed") }
    await gate.arrival()
    let commit = objects[gap.commit]
    (objects[gap.commit], objects[segment]) = (nil, nil)
    gate.open()
    let removed = await #expect(throws: ArchiveError.self) { try await restore.value }
    #expect(removed?.code == .stateUnavailable)
    #expect(removed?.message.contains("a cleaning has removed this state") == true)
    objects[gap.commit] = commit
    let damaged = await #expect(throws: ArchiveError.self) {
      try await bench.restored(.position(gap.position), to: "damaged")
    }
    #expect(damaged?.code == .damaged && damaged?.object == segment)
    try await gap.writer.detach()
    try await gap.store.close()
  }
}
