import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// An index of which most keys were deleted becomes smaller in bounded steps; no reader notices,
/// and the memory is released.
@Suite(.timeLimit(.minutes(10))) struct ShrinkingIndexTests {
  /// A frozen index, and its expected contents: the segment slot of each number.
  ///
  /// Safety of `@unchecked Sendable`: nothing in it changes, and any thread may ask a frozen index.
  private final class Moment: @unchecked Sendable {
    let index: FrozenIndex
    let model: [Int: Int]

    init(_ index: consuming FrozenIndex, _ model: [Int: Int]) {
      self.index = index
      self.model = model
    }

    /// - Returns: the first number below `end` that only the index or only the model contains.
    func difference(below end: Int, step: Int = 1) -> Int? {
      stride(from: 0, to: end, by: step).first { number in
        index.holds(number, slot: model[number] ?? 3) != (model[number] != nil)
      }
    }
  }

  /// Ends a test when the index was found damaged.
  private func require(_ isSound: Bool, _ replay: Comment? = nil) throws {
    try #require(isSound, replay)
  }

  /// Returns an index that renews its tags two levels above the smallest size, so that shrinking
  /// reverts the renewal.
  private func renewingSoon() throws -> HashIndex {
    var index = try HashIndex()
    index.tagShift = index.level + 2 - HashIndex.levelsPerTag
    return index
  }

  private func expectAll(_ index: borrowing HashIndex, _ numbers: Range<Int>) {
    #expect(index.count == numbers.count)
    for number in numbers {
      let isThere = index.holds(number)
      #expect(isThere, "\(number)")
    }
  }

  @Test(arguments: 0..<4 as Range<UInt64>)
  func freeNumbersEqualASet(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var numbers = FreeNumbers()
    var model: Set<Int> = []
    let end: UInt64 = seed % 2 == 0 ? 300 : 600_000
    for _ in 0..<3000 {
      let number = Int(random.next() % end)
      #expect(numbers.contains(number) == model.contains(number), "seed \(seed)")
      switch random.next() % 8 {
      case 0...4 where !model.contains(number):
        numbers.insert(number)
        model.insert(number)
      case 5:
        let lowest = model.min()
        #expect(numbers.removeLowest() == lowest, "seed \(seed)")
        if let lowest { model.remove(lowest) }
      default:
        if model.remove(number) != nil { numbers.remove(number) }
      }
      #expect(numbers.count == model.count, "seed \(seed)")
    }
    for lowest in model.sorted() { #expect(numbers.removeLowest() == lowest, "seed \(seed)") }
    #expect(numbers.removeLowest() == nil)
  }

  /// The same holds across a round of splits that renewed the tags.
  @Test(arguments: [false, true])
  func sparseIndexBecomesSmallWithoutReadingARecord(renews: Bool) throws {
    var index = try renews ? renewingSoon() : HashIndex()
    let hashes = NumberedHashes()
    index.insert(0..<400_000, hashes)
    #expect(index.memory.chunkCounts.own > 2)
    #expect(index.overflow.count > 2000)
    for number in 6_000..<400_000 { index.remove(number) }
    let isSparse = index.isSparse(thoroughly: false)
    #expect(isSparse)
    hashes.isReadable = false
    let reads = hashes.count
    var steps = 0
    var isUnderWay = true
    while isUnderWay {
      let before = (buckets: index.buckets.count, overflow: index.overflow.count)
      var limit = 500
      isUnderWay = index.shrink(&limit)
      steps += 1
      #expect(limit > -20, "a step visits its limit of buckets, and one chain")
      #expect(before.buckets - index.buckets.count <= 250, "each merge visits two buckets")
      #expect(before.overflow - index.overflow.count <= 500)
      if steps % 40 == 0 { expectAll(index, 0..<6_000) }
    }
    #expect(steps > 50 && hashes.count == reads)
    #expect(index.buckets.count < 4 * 6_000 / HashIndex.slotsPerBucket)
    #expect(index.overflow.count < 200)
    #expect(index.memory.chunkCounts.own == 2, "one for the buckets, one for the overflow buckets")
    expectAll(index, 0..<6_000)
    hashes.isReadable = true
    index.insert(6_000..<200_000, hashes)
    expectAll(index, 0..<200_000)
  }

  /// A thorough compaction makes an index smaller from seven sixteenths of its slots on, so also
  /// after half of the keys were deleted. The index has room then, and does not grow at once.
  @Test func indexOfHalfTheKeysBecomesSmallerOnlyThoroughly() throws {
    var index = try HashIndex()
    index.insert(0..<100_000)
    let full = index.buckets.count
    let count = full * HashIndex.slotsPerBucket * 7 / 16
    for number in count..<100_000 { index.remove(number) }
    let isSparseAtTheLimit = index.isSparse(thoroughly: true)
    #expect(!isSparseAtTheLimit)
    for number in (count - HashIndex.slotsPerBucket)..<count { index.remove(number) }
    let (isSparse, isVerySparse) = (
      index.isSparse(thoroughly: true), index.isSparse(thoroughly: false)
    )
    #expect(isSparse && !isVerySparse)
    var limit = Int.max
    let isUnderWay = index.shrink(&limit)
    #expect(!isUnderWay)
    let small = index.buckets.count
    #expect(small < full * 15 / 16 && small > full * 13 / 16, "half of the slots are in use")
    let left = count - HashIndex.slotsPerBucket
    index.insert(left..<left + left / 8)
    #expect(index.buckets.count == small)
    expectAll(index, 0..<left + left / 8)
  }

  /// Chunks leave the index while a snapshot holds their pages, some original and some copied.
  @Test func snapshotKeepsItsChunks() throws {
    var index = try HashIndex()
    index.insert(0..<400_000)
    let full = Dictionary(uniqueKeysWithValues: (0..<400_000).map { ($0, 3) })
    var moments = [Moment(index.freeze(), full)]
    for number in 5_000..<400_000 { index.remove(number) }
    moments.append(Moment(index.freeze(), full.filter { $0.key < 5_000 }))
    let before = index.memory.chunkCounts.own
    var limit = Int.max
    let isUnderWay = index.shrink(&limit)
    #expect(!isUnderWay)
    try #require(index.memory.chunkCounts.own >= before, "snapshots have the chunks")
    expectAll(index, 0..<5_000)
    // Pages of the present chunks are copied for a third snapshot.
    moments.append(Moment(index.freeze(), full.filter { $0.key < 5_000 }))
    for number in 2_000..<5_000 { index.remove(number) }
    for moment in moments { #expect(moment.difference(below: 400_000) == nil) }
    moments.remove(at: 1)
    for moment in moments { #expect(moment.difference(below: 400_000) == nil) }
    moments.remove(at: 0)
    #expect(index.memory.chunkCounts.own == 2)
    #expect(moments[0].difference(below: 400_000) == nil)
    moments = []
    while index.tend() {}
    #expect(index.memory.copyCounts.pages == 0)
    #expect(index.memory.copyCounts.slabs <= 1)
    expectAll(index, 0..<2_000)
  }

  /// Regression: chunks that the index took after the snapshot, and gave back, were kept as long as
  /// the snapshot.
  @Test func snapshotKeepsNoChunkThatIsYounger() throws {
    var index = try HashIndex()
    index.insert(0..<5_000)
    let model = Dictionary(uniqueKeysWithValues: (0..<5_000).map { ($0, 3) })
    let moment = Moment(index.freeze(), model)
    var counts: [Int] = []
    for _ in 0..<4 {
      index.insert(5_000..<400_000)
      for number in 5_000..<400_000 { index.remove(number) }
      var limit = Int.max
      let isUnderWay = index.shrink(&limit)
      #expect(!isUnderWay)
      counts.append(index.memory.chunkCounts.own)
    }
    #expect(counts[3] == counts[1], "\(counts)")
    #expect(moment.difference(below: 400_000) == nil)
    expectAll(index, 0..<5_000)
  }

  /// Insertions, removals, moves, snapshots, checkpoints and steps of shrinking in any order.
  @Test(arguments: 0..<8 as Range<UInt64>)
  func shrinkingIndexEqualsAModel(seed: UInt64) throws {
    let replay = Comment("seed \(seed)")
    var random = SeededGenerator(seed: seed)
    let renews = seed % 2 == 0
    var index = try renews ? renewingSoon() : HashIndex()
    let hashes = NumberedHashes()
    var model: [Int: Int] = [:]
    var moments: [Moment] = []
    var next = 0
    for round in 0..<6 {
      let grows = round % 2 == 0
      for _ in 0..<15_000 {
        switch random.next() % 100 {
        case 0 where random.next() % 20 == 0:
          while index.hasUnvalidatedPages { try require(index.validateNextPages(), replay) }
          if moments.count < 3 { moments.append(Moment(index.freeze(), model)) }
        case 1 where random.next() % 10 == 0 && !moments.isEmpty:
          let moment = moments.removeFirst()
          #expect(moment.difference(below: next, step: 5) == nil, replay)
        case 2...4: index.tend(pages: 4)
        case 5...10 where !grows:
          var limit = Int(random.next() % 80)
          if index.hasUnvalidatedPages {
            try require(index.validateNextPages(), replay)
          } else {
            _ = index.shrink(&limit)
          }
        case _ where grows:
          try require(index.validatePages(NumberedHashes.hash(next)), replay)
          index.insert(next..<next + 1, hashes)
          model[next] = 3
          next += 1
        default:
          let number = Int(random.next() % UInt64(next))
          guard let slot = model[number] else { continue }
          let hash = NumberedHashes.hash(number)
          try require(index.validatePages(hash), replay)
          if random.next() % 8 != 0 {
            try require(index.remove(number, slot: slot), replay)
            model[number] = nil
          } else {
            let to = NumberedHashes.address(number, slot: slot + 1)
            let from = NumberedHashes.address(number, slot: slot)
            try require(index.move(from, to: to, hash), replay)
            model[number] = slot + 1
          }
        }
      }
      if !renews, round == 1 || round == 4 { index = try reloaded(&index) }
      #expect(index.count == model.count, replay)
      for number in 0..<next {
        try require(index.validatePages(NumberedHashes.hash(number)), replay)
        let isThere = index.holds(number, slot: model[number] ?? 3)
        if isThere != (model[number] != nil) { Issue.record("\(number), seed \(seed)") }
      }
    }
    for moment in moments { #expect(moment.difference(below: next) == nil, replay) }
  }

  /// Returns an index with 1000 keys and free overflow buckets.
  private func withFreeOverflowBuckets() throws -> HashIndex {
    var index = try HashIndex()
    index.insert(0..<100_000)
    for number in 1000..<100_000 { index.remove(number) }
    // Merging leaves free overflow buckets between the used ones; not all are at the end.
    while index.buckets.count > 6000 {
      var limit = 10
      _ = index.shrink(&limit)
    }
    return index
  }

  /// A checkpoint does not list the free overflow buckets; a loaded index finds them.
  @Test func loadedIndexReusesItsFreeOverflowBuckets() throws {
    var index = try withFreeOverflowBuckets()
    let free = index.freeOverflow.count
    #expect(free > 500)
    var loaded = try reloaded(&index)
    while loaded.hasUnvalidatedPages { try require(loaded.validateNextPages()) }
    #expect(loaded.freeOverflow.count == free)
    expectAll(loaded, 0..<1000)
    var limit = Int.max
    _ = loaded.shrink(&limit)
    #expect(loaded.overflow.count < 100)
    expectAll(loaded, 0..<1000)
  }

  /// Regression: a bucket that was found free, used by a chain of the index, and retired when that
  /// chain was split was taken for one that no chain had.
  @Test func overflowBucketThatWasFoundFreeIsUsedAndRetired() throws {
    var index = try withFreeOverflowBuckets()
    var loaded = try reloaded(&index)
    var count = loaded.buckets.count
    while loaded.freeOverflow.count < 100 {
      let step = HashIndex.ValidationStep(pages: .max, buckets: count)
      try require(loaded.validateNextPages(step))
      count = 10
    }
    let isUnderWay = loaded.hasUnvalidatedPages
    #expect(isUnderWay)
    loaded.insert(1000..<100_000)
    try require(loaded.validateAllPages())
    expectAll(loaded, 0..<100_000)
  }

  /// Returns the index after a checkpoint and an opening.
  private func reloaded(_ index: inout HashIndex) throws -> HashIndex {
    try require(index.validateAllPages())
    guard let pages = try index.checkpointPages(), let loaded = try HashIndex(pages) else {
      throw StoreError(.corrupted, "the checkpoint was not accepted")
    }
    return loaded
  }

  /// Threads read snapshots while the index becomes smaller, and release the snapshots at times of
  /// their own.
  @Test func readersAreUndisturbedWhileTheIndexShrinks() async throws {
    var index = try HashIndex()
    index.insert(0..<150_000)
    let full = Dictionary(uniqueKeysWithValues: (0..<150_000).map { ($0, 3) })
    let small = full.filter { $0.key < 3_000 }
    await withTaskGroup(of: Int?.self) { group in
      func read(_ moment: Moment, _ count: Int) {
        group.addTask {
          for pass in 0..<count {
            if let number = moment.difference(below: 150_000, step: 7 + pass) { return number }
          }
          return nil
        }
      }
      read(Moment(index.freeze(), full), 2)
      for number in 3_000..<150_000 { index.remove(number) }
      read(Moment(index.freeze(), small), 2)
      var isUnderWay = true
      var steps = 0
      while isUnderWay {
        var limit = 400
        isUnderWay = index.shrink(&limit)
        steps += 1
        if steps % 30 == 0 { read(Moment(index.freeze(), small), 1) }
        index.tend(pages: 10)
        await Task.yield()
      }
      for await number in group { #expect(number == nil) }
    }
    while index.tend(pages: 100) {}
    #expect(index.memory.copyCounts.pages == 0)
    #expect(index.memory.chunkCounts.own == 2)
    expectAll(index, 0..<3_000)
  }
}

/// The same tests with stores.
@Suite(.timeLimit(.minutes(10))) struct ShrinkingStoreTests {
  private static func configuration(
    _ mode: Store.Configuration.IOMode = .mapped
  ) -> Store.Configuration {
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 16 << 20, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  private static func write(
    _ numbers: Range<Int>, to store: Store,
    _ body: @escaping @Sendable (inout WriteBatch, Key) throws -> Void
  ) async throws {
    for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 20_000) {
      try await store.write { batch in
        for number in start..<min(start + 20_000, numbers.upperBound) {
          try body(&batch, Key("\(number)"))
        }
      }
    }
  }

  @Test func stepsMergeABoundedNumberOfBuckets() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration())
    try await Self.write(0..<60_000, to: store) { try $0.set([], forKey: $1) }
    try await Self.write(100..<60_000, to: store) { try $0.removeValue(forKey: $1) }
    let steps = try await store.shrinkInSteps()
    #expect(steps.count > 3)
    #expect(steps.allSatisfy { $0 <= HashIndex.shrinkStep / 2 }, "\(steps)")
    #expect(try await store.statistics().indexBytes <= (1 << HashIndex.initialLevel) * 64 * 2)
    #expect(try await store.count() == 100)
    for number in 0..<100 { #expect(try await store.value(forKey: Key("\(number)")) == []) }
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// The mapping of a checkpoint is released with its last chunk, and the next checkpoint is small.
  @Test(arguments: SnapshotTests.modes)
  func loadedIndexReleasesItsMemory(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration(mode)
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await Self.write(0..<260_000, to: store) { try $0.set([], forKey: $1) }
    }
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(await store.chunkCounts.hasMapping)
    try await Self.write(1000..<260_000, to: store) { try $0.removeValue(forKey: $1) }
    try await store.compact()
    #expect(await !store.chunkCounts.hasMapping)
    #expect(await store.chunkCounts.own <= 2)
    #expect(try await store.statistics().checkpointBytes < 300_000)
    for number in 0..<1000 { #expect(try await store.value(forKey: Key("\(number)")) == []) }
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(await again.recoveryReport.usedCheckpoint)
    #expect(try await again.count() == 1000)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Writes, snapshots and compactions at the same time, in stores that lose most of their keys.
  @Test(arguments: 0..<3 as Range<UInt64>)
  func storeEqualsADictionaryWhileItsIndexShrinks(seed: UInt64) async throws {
    let replay = Comment("seed \(seed)")
    var random = SeededGenerator(seed: seed)
    let storage = MemoryStorage()
    var store = try Store(on: storage, at: "store", configuration: Self.configuration())
    var model: [Key: [UInt8]] = [:]
    var moments: [(snapshot: Store.Snapshot, model: [Key: [UInt8]])] = []
    for round in 0..<3 {
      try await Self.write(0..<30_000, to: store) { try $0.set([UInt8(round)], forKey: $1) }
      for number in 0..<30_000 { model[Key("\(number)")] = [UInt8(round)] }
      moments.append((try await store.snapshot(), model))
      let left = 200 + Int(random.next() % 1000)
      try await Self.write(left..<30_000, to: store) { try $0.removeValue(forKey: $1) }
      for number in left..<30_000 { model[Key("\(number)")] = nil }
      let current = store
      async let compacted = current.compact()
      for number in 0..<2000 {
        let key = Key("\(random.next() % 4000)")
        if random.next() % 3 == 0 {
          try await store.removeValue(forKey: key)
          model[key] = nil
        } else {
          try await store.set([7], forKey: key)
          model[key] = [7]
        }
        if number % 500 == 0 { moments.append((try await store.snapshot(), model)) }
      }
      _ = try await compacted
      #expect(try await store.statistics().indexBytes < 1 << 19, replay)
      for moment in moments { try Self.check(moment.snapshot, moment.model, replay) }
      moments.removeFirst(moments.count / 2)
      #expect(try await store.verify().isSound, replay)
      if random.next() % 2 == 0 {
        try await store.close()
        store = try Store(on: storage, at: "store", configuration: Self.configuration())
      }
    }
    for moment in moments { try Self.check(moment.snapshot, moment.model, replay) }
    try await store.snapshot().check(model, replay)
    try await store.close()
  }

  private static func check(
    _ snapshot: Store.Snapshot, _ model: [Key: [UInt8]], _ replay: Comment
  ) throws {
    #expect(try snapshot.contents() == model, replay)
    let keys = (0..<6000).map { Key("\($0)") }
    #expect(try snapshot.values(forKeys: keys) == keys.map { model[$0] }, replay)
  }
}

extension Store {
  fileprivate var chunkCounts: (own: Int, hasMapping: Bool) {
    engine?.live.index.memory.chunkCounts ?? (0, false)
  }

  /// - Returns: the number of buckets that each step has merged.
  fileprivate func shrinkInSteps() throws -> [Int] {
    var steps: [Int] = []
    var isUnderWay = engine!.live.index.isSparse(thoroughly: false)
    while isUnderWay {
      let before = engine!.live.index.buckets.count
      isUnderWay = try engine!.shrinkIndexStep()
      steps.append(before - engine!.live.index.buckets.count)
    }
    return steps
  }
}
