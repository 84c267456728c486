import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A compaction publishes its output only if the records that it has selected account for all live
/// records of its inputs.
struct SelectionTests {
  @Test(arguments: [UInt64](1...6), [false, true])
  func selectionAccountsForReplacedAndDeletedRecords(seed: UInt64, isOrdered: Bool) async throws {
    var configuration = Store.Configuration.testing()
    configuration.compaction = .manual
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let keyspace =
      isOrdered ? try store.orderedKeyspace(named: "test") : try store.keyspace(named: "test")
    for number in 0..<9_000 { try await keyspace.set([1, 2, 3], forKey: Key("\(number)")) }
    try await store.sealForCompaction()
    var random = SeededGenerator(seed: seed)
    let (all, allButOne) = try await store.accountsAfterSelecting {
      for _ in 0..<random.next() % 500 {
        let key = Key("\(random.next() % 9_000)")
        if random.next() % 3 == 0 {
          try await keyspace.removeValue(forKey: key)
        } else {
          try await keyspace.set([4], forKey: key)
        }
      }
    }
    #expect(all)
    #expect(!allButOne)
    try await store.close()
  }
}

extension Store {
  /// Selects the live records of all sealed segments as a compaction does, and calls the body after
  /// each part.
  ///
  /// - Returns: whether all selected records, and whether all but one, account for the segments.
  fileprivate func accountsAfterSelecting(
    _ body: () async throws -> Void
  ) async throws -> (all: Bool, allButOne: Bool) {
    let slots = engine!.compactable()
    let reader = CompactionReader(
      engine!.compactionInputs(slots), engine!.directoryHandle(), engine!.log.manifest.hashKey,
      engine!.live.trees.ordered)
    for slot in slots { engine!.log.table[slot].beginSelection() }
    var (all, allButOne) = (LiveSelection(), LiveSelection())
    var count = 0
    while let candidates = try reader.chunk() {
      let isKept = try engine!.selectLive(candidates[...], cleanedThrough: .max)
      engine!.recordSelection(candidates[...])
      for (candidate, isKept) in zip(candidates, isKept) where isKept && !candidate.isDelete {
        all.add(candidate)
        if count > 0 { allButOne.add(candidate) }
        count += 1
      }
      try await body()
    }
    #expect(count > 4_000)
    return (engine!.accounts(for: slots, all), engine!.accounts(for: slots, allButOne))
  }
}
