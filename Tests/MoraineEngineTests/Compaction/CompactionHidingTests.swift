import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Writes that occur while, or just before, compaction copies older records of the same keys. Each
/// of these tests was written because no test noticed a planted bug (rule 10).
@Suite(.timeLimit(.minutes(10))) struct CompactionHidingTests {
  private static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: mode)
    configuration.compaction = .manual
    return configuration
  }

  /// "key" is in the first segment, which is sealed, and everything is durable.
  private func fill(_ store: Store) async throws {
    try await store.set([1], forKey: "key")
    var number = 0
    while try await store.statistics().segmentCount < 3 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      number += 1
    }
    try await store.sync()
  }

  /// The older record may be removed only when the newer record cannot be lost any more.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func newerRecordIsDurableBeforeTheOlderRecordIsRemoved(
    mode: Store.Configuration.IOMode
  ) async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: Self.configuration(mode))
    try await fill(store)
    try await store.set([2], forKey: "key")
    try await store.compact(segments: 0..<1)
    let image = SimulatedDisk(disk.image(.nothing))
    let after = try image.openStore(configuration: Self.configuration(mode))
    #expect(try await after.value(forKey: "key") != nil)
    try await after.close()
    try await store.close()
  }

  /// The newer record may be written while the compaction copies.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func newerRecordOfAWriteDuringTheCopyIsDurableFirst(mode: Store.Configuration.IOMode) async throws
  {
    let disk = SimulatedDisk()
    let storage = FaultStorage(disk)
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    try await fill(store)
    let gate = Gate()
    let input = try #require(await store.firstSegmentName)
    let openings = Mutex(0)
    let atRemoval = Mutex<DiskImage?>(nil)
    // The compaction opens its input first to look for a dictionary, and then to copy it, before it
    // looks for live records. An index checkpoint may sync the log after the input is removed.
    storage.setScript { event in
      guard event.file == input else { return nil }
      if event.operation == .remove { atRemoval.withLock { $0 = disk.image(.nothing) } }
      guard event.operation == .openFile else { return nil }
      return openings.withLock { openings in
        openings += 1
        return openings == 2 ? .hang(gate) : nil
      }
    }
    let compaction = Task { try await store.compact(segments: 0..<1) }
    await gate.arrival()
    try await store.set([2], forKey: "key", durability: Durability.none)
    gate.open()
    try await compaction.value
    let image = SimulatedDisk(try #require(atRemoval.withLock { $0 }))
    let after = try image.openStore(configuration: Self.configuration(mode))
    #expect(try await after.value(forKey: "key") == [2])
    try await after.close()
    try await store.close()
  }

  /// A copy is installed only where the index still names the record that was copied.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aCopyReplacesNothingNewer(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    try await fill(store)
    let gate = Gate()
    // The sync of the output: everything was copied, and nothing is installed yet.
    storage.setScript { event in
      event.operation == .synchronizeFull && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    let compaction = Task { try await store.compact(segments: 0..<1) }
    await gate.arrival()
    try await store.set([2], forKey: "key")
    gate.open()
    try await compaction.value
    #expect(try await store.value(forKey: "key") == [2])
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Rule 8: when no record is left, only the manifest holds the numbers.
  @Test func numbersSurviveCompactingEverythingAway() async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: Self.configuration(.mapped))
    try await store.set([1], forKey: "a")
    let last = try #require(try await store.removeValue(forKey: "a", durability: .sync))
    try await store.compact()
    #expect(try await store.statistics().segmentCount == 0)
    try await store.close()
    let again = try disk.openStore(configuration: Self.configuration(.mapped))
    #expect(try await again.set([2], forKey: "b") > last)
    try await again.close()
  }
}

extension Store {
  fileprivate var firstSegmentName: String? {
    engine!.log.table.order.first.map { engine!.log.table.fileName($0) }
  }
}
