import CMoraineShims
import Foundation
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Pages of the index that were copied for a snapshot return to their original place, and the
/// memory of the copies is released.
@Suite(.timeLimit(.minutes(10))) struct PageHomeTests {
  @Test func pagesReturnHomeWhenTheLastSnapshotIsReleased() throws {
    var index = try HashIndex()
    let hashes = NumberedHashes()
    for number in 0..<60_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    func places(_ index: borrowing HashIndex) -> [UnsafeMutablePointer<UInt64>] {
      stride(from: 0, to: index.buckets.count, by: BucketArray.pageBuckets).map {
        index.buckets[$0]
      }
    }
    let before = places(index)
    do {
      let snapshot = index.freeze()
      for number in 0..<60_000 {
        let isThere = index.move(
          NumberedHashes.address(number), to: NumberedHashes.address(number + 100_000),
          NumberedHashes.hash(number))
        #expect(isThere)
      }
      #expect(places(index).allSatisfy { !before.contains($0) }, "every page was changed")
      #expect(index.memory.copyCounts.pages >= before.count)
      while index.tend(pages: 100) {}
      #expect(places(index).allSatisfy { !before.contains($0) }, "the snapshot has the pages")
      let isThere = snapshot.holds(NumberedHashes.address(1), NumberedHashes.hash(1))
      #expect(isThere)
    }
    var steps = 0
    while index.tend() { steps += 1 }
    #expect(steps >= before.count / HashIndex.homePages - 1, "a few pages at a time")
    #expect(places(index) == before)
    #expect(index.memory.copyCounts.pages == 0)
    #expect(index.memory.copyCounts.slabs <= 1, "the memory was returned")
    let isAtRest = !index.needsCare && !index.isFrozen
    #expect(isAtRest)
    for number in 0..<60_000 {
      let isThere = index.holds(
        NumberedHashes.address(number + 100_000), NumberedHashes.hash(number))
      #expect(isThere)
    }
  }

  /// Regression: a child that released a snapshot of its parent waited for a lock that a thread of
  /// the parent may have held.
  @Test func aChildReleasesNoMemoryOfASnapshot() async {
    await #expect(processExitsWith: .success) {
      var index = try HashIndex()
      index.insert(NumberedHashes.hash(1), NumberedHashes.address(1), rehashing: NumberedHashes())
      var snapshot: FrozenHolder? = FrozenHolder(index.freeze(), [1])
      guard snapshot != nil, index.memory.isFrozen else { exit(1) }
      moraine_note_fork()
      snapshot = nil
      guard index.memory.releaseCount == 0, index.memory.isFrozen else { exit(2) }
    }
  }

  /// Snapshots that overlap and are released in any order, with changes and steps home in between.
  @Test(arguments: 0..<8)
  func indexAndSnapshotsEqualTheirModels(seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    var index = try HashIndex()
    let hashes = NumberedHashes()
    var model: Set<Int> = []
    var snapshots: [Int: FrozenHolder] = [:]
    var next = 0
    let replay = Comment("seed \(seed)")
    for step in 0..<40_000 {
      switch random.next() % 100 {
      case 0 where snapshots.count < 4:
        snapshots[step] = FrozenHolder(index.freeze(), model)
      case 1:
        guard let key = snapshots.keys.sorted().first(where: { _ in random.next() % 2 == 0 }) else {
          continue
        }
        if let snapshot = snapshots.removeValue(forKey: key) { check(snapshot, next, replay) }
      case 2...20:
        index.tend(pages: Int(random.next() % 5))
      case 21...35 where next > 0:
        let number = Int(random.next() % UInt64(next))
        guard model.remove(number) != nil else { continue }
        index.makeUnique(NumberedHashes.hash(number))
        var candidates = index.candidates(NumberedHashes.hash(number))
        while let entry = index.next(&candidates) {
          guard entry.address == NumberedHashes.address(number) else { continue }
          index.remove(entry)
          break
        }
      default:
        index.insert(NumberedHashes.hash(next), NumberedHashes.address(next), rehashing: hashes)
        model.insert(next)
        next += 1
      }
    }
    for snapshot in snapshots.values { check(snapshot, next, replay) }
    snapshots = [:]
    while index.tend(pages: 50) {}
    #expect(index.memory.copyCounts.pages == 0, replay)
    #expect(index.count == model.count, replay)
    for number in 0..<next {
      let isThere = index.holds(NumberedHashes.address(number), NumberedHashes.hash(number))
      if isThere != model.contains(number) { Issue.record("\(number) of the index, seed \(seed)") }
    }
  }

  private final class FrozenHolder {
    let index: FrozenIndex
    let numbers: Set<Int>

    init(_ index: consuming FrozenIndex, _ numbers: Set<Int>) {
      self.index = index
      self.numbers = numbers
    }
  }

  private func check(_ snapshot: FrozenHolder, _ count: Int, _ replay: Comment) {
    #expect(snapshot.index.count == snapshot.numbers.count, replay)
    for number in stride(from: 0, to: count, by: 3) {
      let isThere = snapshot.index.holds(
        NumberedHashes.address(number), NumberedHashes.hash(number))
      if isThere != snapshot.numbers.contains(number) {
        Issue.record("\(number) of a snapshot: \(replay)")
      }
    }
  }

  /// A store that is only read after a snapshot was released; and a checkpoint, which takes a
  /// snapshot.
  @Test func readsAndCheckpointsReturnPagesHome() async throws {
    var configuration = Store.Configuration.hashed()
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 0
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<2000 { try await store.set([1], forKey: Key("\(number)")) }
    do {
      let snapshot = try await store.snapshot()
      for number in 0..<2000 { try await store.set([2], forKey: Key("\(number)")) }
      #expect(try snapshot.value(forKey: "1999") == [1])
      #expect(await store.copyCount > 10)
    }
    for number in 0..<200 { #expect(try await store.contains(Key("\(number)"))) }
    #expect(await store.copyCount == 0)
    try await store.compact()
    #expect(await store.copyCount == 0)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}

extension Store {
  fileprivate var copyCount: Int { engine?.live.index.memory.copyCounts.pages ?? 0 }
}
