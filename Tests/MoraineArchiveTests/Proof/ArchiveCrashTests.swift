import Foundation
import MoraineArchive
import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// The machine of the writer, or of a restore, fails at each change of its disk. The archive is
/// elsewhere, and survives.
///
/// `MORAINE_ARCHIVE_CRASHES` is the share of the changes after which the machine fails: every 23rd
/// one by default, 1 for all.
@Suite(.timeLimit(.minutes(60))) struct ArchiveCrashTests {
  /// Each state that the store had, by the number of its last operation.
  private final class States: Sendable {
    private let states = Mutex<[SequenceNumber: ArchiveBench.State]>([:])

    func add(_ store: Store) async throws {
      let (sequence, state) = (
        try await store.statistics().lastSequence, try await store.contents()
      )
      states.withLock { $0[sequence] = state }
    }

    subscript(_ sequence: SequenceNumber) -> ArchiveBench.State? {
      states.withLock { $0[sequence] }
    }
  }

  private func write(
    _ disk: SimulatedDisk, _ bench: ArchiveBench, _ crashes: ArchiveCrashes, _ states: States
  ) async throws {
    var random = SeededGenerator(seed: 3)
    for life in 0..<2 {
      let store = try disk.openStore(configuration: ArchiveCrashes.configuration)
      if life == 0 { try await store.set([1], forKey: "first") }
      try await states.add(store)
      let writer = try await bench.attach(store)
      for round in 0..<6 {
        for _ in 0..<12 {
          try await store.change(1, using: &random)
          try await states.add(store)
        }
        if round % 3 == 1 { _ = try await store.compact() }
        crashes.reach(try await writer.flush())
        if round % 3 == 2 { try await writer.checkpoint() }
      }
      if life == 0 { await writer.abandon() } else { try await writer.detach() }
      try await store.close()
    }
  }

  /// What the archive has acknowledged is on the disk after a power failure too, so the store goes
  /// on in the archive, and the archive has no more than the store.
  @Test func writerGoesOnAfterAPowerFailureAtEachChange() async throws {
    let (disk, bench) = (SimulatedDisk(), ArchiveCrashes.bench())
    let (crashes, states) = (ArchiveCrashes(), States())
    disk.setObserver { crashes.observe(disk, bench.objects) }
    try await write(disk, bench, crashes, states)
    disk.setObserver(nil)
    #expect(crashes.all.count > 5)
    var images = 0
    for (number, crash) in crashes.all.enumerated() {
      for (policy, image) in crash.moment.images(subsets: 2, torn: 1, seed: UInt64(number)) {
        do {
          try await goOn(SimulatedDisk(image), crash, states)
        } catch {
          Issue.record("change \((number + 1) * ArchiveCrashes.step), \(policy): \(error)")
        }
        images += 1
      }
    }
    print("\(crashes.count) changes, \(images) power failures of the writer")
  }

  private func goOn(
    _ disk: SimulatedDisk, _ crash: ArchiveCrashes.Crash, _ states: States
  ) async throws {
    let bench = ArchiveCrashes.bench(crash.objects)
    if crash.reached != .none {
      let archived = try await bench.restored(to: "alone")
      #expect(archived.sequence >= crash.reached)
      #expect(states[archived.sequence] == archived.state)
    }
    let store = try disk.openStore(configuration: ArchiveCrashes.configuration)
    let last = try await store.statistics().lastSequence
    #expect(last >= crash.reached, "the disk has lost what the archive has")
    let writer = try await bench.attach(store)
    try await store.set([9], forKey: "later")
    try await writer.flush()
    let restored = try await bench.restored(to: "restored")
    #expect(try await restored.state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  /// A restore is repeated after a power failure, or the store is complete.
  @Test func restoreIsRepeatedOrCompleteAfterAPowerFailureAtEachChange() async throws {
    let (source, bench) = (SimulatedDisk(), ArchiveCrashes.bench())
    let states = States()
    try await write(source, bench, ArchiveCrashes(), states)
    let (disk, crashes) = (SimulatedDisk(), ArchiveCrashes())
    disk.setObserver { crashes.observe(disk, bench.objects) }
    let archive = try await bench.archive()
    let report = try await archive.restore(to: "store", at: .latest, on: disk)
    disk.setObserver(nil)
    #expect(crashes.count > 5)
    let last = ArchiveCrashes.Crash(
      change: crashes.count + 1, moment: disk.moment(), objects: [:], reached: .none)
    for (number, crash) in (crashes.all + [last]).enumerated() {
      for (policy, image) in crash.moment.images(subsets: 4, torn: 2, seed: UInt64(number)) {
        let disk = SimulatedDisk(image)
        let isLast = number == crashes.all.count
        do throws(ArchiveError) {
          _ = try await archive.restore(to: "store", at: .latest, on: disk)
          #expect(!isLast, "a restored store is lost: \(policy)")
        } catch {
          // The store is there.
          #expect(error.code == .store, "change \(number), \(policy): \(error)")
        }
        let store = try disk.openStore(configuration: ArchiveCrashes.configuration)
        #expect(try await store.contents() == states[report.sequence], "\(number), \(policy)")
        try await store.close()
      }
    }
    print("\(crashes.count) changes of a restore")
  }
}
