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
  private static var step: Int {
    ProcessInfo.processInfo.environment["MORAINE_ARCHIVE_CRASHES"].flatMap { Int($0) } ?? 23
  }

  /// The disk, the archive and the last acknowledgement before a change of the disk.
  private struct Crash {
    let moment: DiskMoment
    let objects: [ObjectName: [UInt8]]
    let acknowledged: SequenceNumber
  }

  /// Collects every so many changes.
  private final class Crashes: Sendable {
    private let state = Mutex((count: 0, acknowledged: SequenceNumber.none, crashes: [Crash]()))

    var count: Int { state.withLock { $0.count } }
    var all: [Crash] { state.withLock { $0.crashes } }

    func acknowledge(_ sequence: SequenceNumber) { state.withLock { $0.acknowledged = sequence } }

    func observe(_ disk: SimulatedDisk, _ objects: SimulatedObjectStore) {
      let isTaken = state.withLock { state in
        state.count += 1
        return state.count % step == 0
      }
      if !isTaken { return }
      let (moment, content) = (disk.moment(), objects.objects)
      state.withLock { state in
        state.crashes.append(
          Crash(moment: moment, objects: content, acknowledged: state.acknowledged))
      }
    }
  }

  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.compaction = .manual
    configuration.durability = .none
    configuration.ioMode = .positional
    return configuration
  }

  private static func bench(_ objects: [ObjectName: [UInt8]] = [:]) -> ArchiveBench {
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 1500
    bench.objects.objects = objects
    return bench
  }

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
    _ disk: SimulatedDisk, _ bench: ArchiveBench, _ crashes: Crashes, _ states: States
  ) async throws {
    var random = SeededGenerator(seed: 3)
    for life in 0..<2 {
      let store = try disk.openStore(configuration: Self.configuration)
      if life == 0 { try await store.set([1], forKey: "first") }
      try await states.add(store)
      let writer = try await bench.attach(store)
      for round in 0..<6 {
        for _ in 0..<12 {
          try await store.change(1, using: &random)
          try await states.add(store)
        }
        if round % 3 == 1 { _ = try await store.compact() }
        crashes.acknowledge(try await writer.flush())
        if round % 3 == 2 { try await writer.checkpoint() }
      }
      if life == 0 { await writer.abandon() } else { try await writer.detach() }
      try await store.close()
    }
  }

  /// What the archive has acknowledged is on the disk after a power failure too, so the store goes
  /// on in the archive, and the archive has no more than the store.
  @Test func writerGoesOnAfterAPowerFailureAtEachChange() async throws {
    let (disk, bench) = (SimulatedDisk(), Self.bench())
    let (crashes, states) = (Crashes(), States())
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
          Issue.record("change \((number + 1) * Self.step), \(policy): \(error)")
        }
        images += 1
      }
    }
    print("\(crashes.count) changes, \(images) power failures of the writer")
  }

  private func goOn(_ disk: SimulatedDisk, _ crash: Crash, _ states: States) async throws {
    let bench = Self.bench(crash.objects)
    if crash.acknowledged != .none {
      let archived = try await bench.restored(to: "alone")
      #expect(archived.sequence >= crash.acknowledged)
      #expect(states[archived.sequence] == archived.state)
    }
    let store = try disk.openStore(configuration: Self.configuration)
    let last = try await store.statistics().lastSequence
    #expect(last >= crash.acknowledged, "the disk has lost what the archive has")
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
    let (source, bench) = (SimulatedDisk(), Self.bench())
    let states = States()
    try await write(source, bench, Crashes(), states)
    let (disk, crashes) = (SimulatedDisk(), Crashes())
    disk.setObserver { crashes.observe(disk, bench.objects) }
    let archive = try await bench.archive()
    let report = try await archive.restore(to: "store", at: .latest, on: disk)
    disk.setObserver(nil)
    #expect(crashes.count > 5)
    let last = Crash(moment: disk.moment(), objects: [:], acknowledged: .none)
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
        let store = try disk.openStore(configuration: Self.configuration)
        #expect(try await store.contents() == states[report.sequence], "\(number), \(policy)")
        try await store.close()
      }
    }
    print("\(crashes.count) changes of a restore")
  }
}
