import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// The pages of an index that was loaded from a checkpoint are checked when they are needed, and a
/// few at a time.
@Suite(.timeLimit(.minutes(10))) struct LazyPageTests {
  private static let configuration: Store.Configuration = {
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 16 << 20)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }()

  /// A first segment with four keys, a second segment with very many, and a checkpoint of both.
  private static func store() async throws -> Store {
    let storage = MemoryStorage()
    let small = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<4 { try await small.set([7], forKey: Key("small \(number)")) }
    try await small.close()
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let count = 260_000
    for start in stride(from: 0, to: count, by: 20_000) {
      try await store.write { batch in
        for number in start..<start + 20_000 { try batch.set([], forKey: Key("\(number)")) }
      }
    }
    try await store.close()
    return try Store(on: storage, at: "store", configuration: configuration)
  }

  @Test func compactionChecksOnlyThePagesOfCopiedRecords() async throws {
    let store = try await Self.store()
    let before = try #require(await store.checkedPages())
    try await store.compact(segments: 0..<1)
    let after = try #require(await store.checkedPages(), "the index is still checked as needed")
    #expect(after - before <= 12, "four keys: four buckets and their overflow buckets")
    for number in 0..<4 { #expect(try await store.value(forKey: Key("small \(number)")) == [7]) }
    try await store.close()
  }

  /// A compaction looks up no deletes, so it validates no pages for them, and must read none.
  @Test func compactionOfDeletesFollowsNoDamagedLink() async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.write { batch in
        for number in 0..<6000 { try batch.set([1], forKey: Key("\(number)")) }
      }
    }
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.write { batch in
        for number in 5500..<6000 { try batch.removeValue(forKey: Key("\(number)")) }
      }
    }
    let beyond: UInt64 = 0xFFFFF << 28 | 1 << 27
    try CheckpointForgery(directory: directory).change { header, bytes in
      for bucket in 0..<Int(header.bucketCount) {
        bytes.store(beyond, at: header.lengthBytes + bucket * 64 + 56)
      }
    }
    let store = try Store(at: directory.path, configuration: configuration)
    let before = try #require(await store.checkedPages())
    try await store.compact(segments: 1..<2)
    #expect(await store.checkedPages() == before)
    for number in 0..<6000 {
      let value = try await store.value(forKey: Key("\(number)"))
      #expect(value == (number < 5500 ? [1] : nil), "\(number)")
    }
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func aCheckpointChecksTheIndexInSmallSteps() async throws {
    let store = try await Self.store()
    let steps = try await store.admitInSteps()
    #expect(steps.count > 1)
    #expect(steps.allSatisfy { $0 <= 40 }, "\(steps)")
    #expect(await store.checkedPages() == nil)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// A page is found damaged while copies are being installed: the index that is rebuilt from the
  /// log names the copies that were not counted yet.
  @Test func indexRebuiltBetweenCopyAndInstallLosesNothing() async throws {
    let store = try Store(on: MemoryStorage(), at: "store", configuration: Self.configuration)
    let settings = try store.keyspace(named: "settings")
    for number in 0..<500 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number % 300)"))
      try await settings.set([1], forKey: Key("\(number % 20)"))
    }
    let before = try await store.statistics()
    try await store.rewriteRebuildingInTheMiddle()
    let after = try await store.statistics()
    #expect(after.count == before.count && after.digest == before.digest)
    #expect(after.poison == nil && after.segmentCount == 1)
    #expect(try await settings.count() == 20)
    #expect(try await store.verify().isSound)
    #expect(try await store.segmentStatistics().reduce(0) { $0 + $1.liveBytes } == after.liveBytes)
    try await store.compact()
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}

extension Store {
  /// The number of checked pages; nil when all of the index was checked.
  fileprivate func checkedPages() -> Int? {
    engine!.live.index.hasUnvalidatedPages ? engine!.live.index.pages?.checkedCount : nil
  }

  /// - Returns: the number of pages that each step has checked.
  fileprivate func admitInSteps() throws -> [Int] {
    var steps: [Int] = []
    while let pages = engine!.live.index.pages {
      let before = pages.checkedCount
      _ = try engine!.validateNextPages()
      steps.append(pages.checkedCount - before)
    }
    return steps
  }

  /// Runs the steps of ``rewrite(_:_:limitBytes:cannotMerge:)``, and rebuilds the index from the
  /// log when the output is part of the store and half of the entries name the old records.
  fileprivate func rewriteRebuildingInTheMiddle() async throws {
    try await sealForCompaction()
    let slots = engine!.compactable()
    let inputs = engine!.compactionInputs(slots)
    let directory = engine!.directoryHandle()
    let reader = CompactionReader(
      inputs, directory, engine!.log.manifest.hashKey, OrderedKeyspaces())
    let output = CompactionOutput(
      engine!.compactionHeader(slots), directory, limitBytes: StoreLimits.recordOffsetBytes)
    let cleaned = engine!.log.lastSequence
    while let candidates = try reader.chunk() {
      let isKept = try engine!.selectLive(candidates[...], cleanedThrough: .max)
      try output.add(candidates, isKept, from: reader)
    }
    try output.finish(pipeline)
    let published = try await publish(
      slots, output, cleaned, hiding: cleaned, on: SerialQueue(.background))
    let slot = try #require(published)
    let half = output.relocations.count / 2
    engine!.install(output.relocations[..<half], in: slot)
    let moves = engine!.live.index.movesUnderWay
    try engine!.rebuildIndex()
    // A snapshot that is taken now must reserve memory for the rest of the moves.
    #expect(moves > 0 && engine!.live.index.movesUnderWay == moves)
    engine!.install(output.relocations[half...], in: slot)
    engine!.live.index.movesUnderWay = 0
    try await remove(slots)
  }
}
