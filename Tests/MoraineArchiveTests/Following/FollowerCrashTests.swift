import Foundation
import MoraineArchive
import MoraineEngine
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// The machine of a follower fails at each change of its disk. The archive survives.
///
/// `MORAINE_ARCHIVE_CRASHES` is the share of the changes after which the machine fails: every 23rd
/// one by default, 1 for all.
@Suite(.timeLimit(.minutes(60))) struct FollowerCrashTests {
  /// Each archived state, by the number of its last operation.
  private typealias States = [SequenceNumber: ArchiveBench.State]

  private func follow(
    _ disk: SimulatedDisk, _ bench: ArchiveBench, _ crashes: ArchiveCrashes
  ) async throws -> States {
    var random = SeededGenerator(seed: 5)
    var states: States = [:]
    let store = try bench.store()
    try await store.change(20, using: &random)
    let writer = try await bench.attach(store)
    states[try await writer.flush()] = try await store.contents()
    disk.setObserver { crashes.observe(disk, bench.objects) }
    defer { disk.setObserver(nil) }
    var follower = try await bench.archive().follow(
      in: "store", on: disk, configuration: ArchiveCrashes.configuration, polls: false)
    for round in 0..<16 {
      try await store.change(25, using: &random)
      if round % 5 == 3 { _ = try await store.compact() }
      states[try await writer.flush()] = try await store.contents()
      crashes.reach(try await follower.catchUp())
      if round % 6 == 4 { _ = try await follower.store.compact() }
      if round % 7 == 5 {
        try await follower.close()
        follower = try await bench.archive().follow(
          in: "store", on: disk, configuration: ArchiveCrashes.configuration, polls: false)
      }
      if round == 8 { try await writer.checkpoint() }
    }
    let (next, nextWriter) = try await follower.promote()
    for _ in 0..<4 {
      try await next.change(25, using: &random)
      let sequence = try await nextWriter.flush()
      states[sequence] = try await next.contents()
      crashes.reach(sequence)
    }
    try await nextWriter.detach()
    try await next.close()
    try await store.close()
    return states
  }

  /// Without room for replaced segments, each compaction of the writer leaves a gap, and the
  /// follower takes whole copies.
  @Test(arguments: [ArchiveConfiguration().heldBytesLimit, 0])
  func followerGoesOnAfterAPowerFailureAtEachChange(heldBytesLimit: Int) async throws {
    var bench = ArchiveCrashes.bench()
    bench.configuration.heldBytesLimit = heldBytesLimit
    let (disk, crashes) = (SimulatedDisk(), ArchiveCrashes())
    let states = try await follow(disk, bench, crashes)
    #expect(crashes.all.count > 5)
    #expect(heldBytesLimit > 0 || bench.events.rebases > 0)
    var images = 0
    for crash in crashes.all {
      for (policy, image) in crash.moment.images(
        subsets: 2, torn: 1, seed: UInt64(crash.change))
      {
        images += 1
        do {
          try await goOn(SimulatedDisk(image), crash, states)
        } catch {
          Issue.record("change \(crash.change), \(policy): \(error)")
        }
      }
    }
    print("\(images) power failures of a follower")
  }

  /// Opens what is on the disk as a follower, or as the writer that it has become.
  private func goOn(
    _ disk: SimulatedDisk, _ crash: ArchiveCrashes.Crash, _ states: States
  ) async throws {
    let bench = ArchiveCrashes.bench(crash.objects)
    let archive = try await bench.archive()
    let follower: Follower
    do throws(ArchiveError) {
      follower = try await archive.follow(
        in: "store", on: disk, configuration: ArchiveCrashes.configuration, polls: false)
    } catch {
      guard error.storeError?.code == .readOnly else { throw error }
      return try await write(disk, bench, crash)
    }
    let sequence = follower.freshness.sequence
    #expect(sequence >= crash.reached, "change \(crash.change): the follower went back")
    #expect(
      try await follower.store.contents() == states[sequence],
      "change \(crash.change): state at \(sequence)")
    let report = try await follower.store.verify()
    #expect(report.problems.isEmpty, "change \(crash.change), sequence \(sequence)")
    let newest = try await follower.catchUp()
    let restored = try await bench.restored(to: "newest")
    #expect(newest == restored.sequence)
    #expect(try await follower.store.contents() == restored.state, "change \(crash.change)")
    try await follower.close()
  }

  private func write(
    _ disk: SimulatedDisk, _ bench: ArchiveBench, _ crash: ArchiveCrashes.Crash
  ) async throws {
    let store = try disk.openStore(configuration: ArchiveCrashes.configuration)
    let last = try await store.statistics().lastSequence
    #expect(last >= crash.reached, "change \(crash.change): archived operations are lost")
    let writer = try await bench.attach(store)
    try await store.set([9], forKey: "later")
    try await writer.flush()
    let restored = try await bench.restored(to: "restored")
    #expect(try await restored.state == store.contents(), "change \(crash.change)")
    try await writer.detach()
    try await store.close()
  }
}
