import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A small disk without a free block: errors report that, deletes and compaction free space, writes
/// resume in the same store, and nothing is lost.
@Suite(.timeLimit(.minutes(10))) struct FullDiskTests {
  private static let value = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* $0 &* 7) }

  struct Case: Sendable {
    let mode: Store.Configuration.IOMode
    let segmentSizeBytes: Int
    let isAutomatic: Bool
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [20_000, 64 << 20].flatMap { size in
      [true, false].map { Case(mode: mode, segmentSizeBytes: size, isAutomatic: $0) }
    }
  }

  private func open(
    _ storage: MemoryStorage, _ item: Case, checkpointFloorBytes: Int? = nil
  ) throws -> Store {
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: item.segmentSizeBytes, ioMode: item.mode)
    if !item.isAutomatic { configuration.compaction = .manual }
    if let checkpointFloorBytes { configuration.checkpointFloorBytes = checkpointFloorBytes }
    return try Store(on: storage, at: "store", configuration: configuration)
  }

  /// - Returns: the number of puts that succeeded.
  private func fill(_ store: Store, _ prefix: String) async throws -> Int {
    for number in 0..<20_000 {
      do throws(StoreError) {
        try await store.set(Self.value, forKey: Key("\(prefix) \(number)"))
      } catch {
        #expect(error.code == .noSpace)
        return number
      }
    }
    Issue.record("the disk never filled")
    return 0
  }

  /// Deletes that exceed the reserve for deletes need a compaction, which the store may start on
  /// its own.
  private func delete(_ key: Key, from store: Store) async throws -> Bool {
    do throws(StoreError) {
      return try await store.removeValue(forKey: key) != nil
    } catch {
      #expect(error.code == .noSpace)
    }
    try await store.compact()
    return try await store.removeValue(forKey: key) != nil
  }

  @Test(arguments: cases)
  func deletesAndCompactionFreeAFullDisk(_ item: Case) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let store = try open(storage, item)
    let count = try await fill(store, "old")
    #expect(count > 1000)
    for number in 0..<count where number % 8 != 0 {
      #expect(try await delete(Key("old \(number)"), from: store))
    }
    try await store.compact()
    let more = try await fill(store, "new")
    #expect(more > count / 2, "the space of deleted records is used again: \(more) of \(count)")
    for number in 0..<count {
      let found = try await store.value(forKey: Key("old \(number)"))
      #expect(found == (number % 8 == 0 ? Self.value : nil))
    }
    #expect(try await store.verify().isSound)
    #expect(store.poison == nil)
    // Closing releases the reserve for deletes, and so finds the little space that it needs.
    try await store.close()
    let again = try open(storage, item)
    #expect(try await again.count() == (count + 7) / 8 + more)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Regression: an opening left no reserve, and no put made one. Deletes used up the disk, and then
  /// no compaction had space for its first copy.
  @Test(arguments: cases, [true, false])
  func deletesAndCompactionFreeAFullDiskThatIsOpenedAgain(
    _ item: Case, isKilled: Bool
  ) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let count = try await fillAndLeave(storage, item, isKilled: isKilled)
    let store = try open(storage, item, checkpointFloorBytes: 1 << 40)
    for number in 0..<count where number % 8 != 0 {
      #expect(try await delete(Key("old \(number)"), from: store), "key \(number) of \(count)")
    }
    try await store.compact()
    #expect(try await fill(store, "new") > count / 3)
    for number in 0..<count {
      let found = try await store.value(forKey: Key("old \(number)"))
      #expect(found == (number % 8 == 0 ? Self.value : nil))
    }
    #expect(try await store.verify().isSound)
    #expect(store.poison == nil)
    try await store.close()
  }

  /// Fills a store that does not exist yet, and closes or kills it.
  ///
  /// - Returns: the number of its keys.
  private func fillAndLeave(
    _ storage: MemoryStorage, _ item: Case, isKilled: Bool
  ) async throws -> Int {
    let store = try open(storage, item, checkpointFloorBytes: 1 << 40)
    let count = try await fill(store, "old")
    if isKilled { try await store.die() } else { try await store.close() }
    return count
  }

  /// What a delete reserves for a compaction it uses itself where there is nothing else.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional], 2...6)
  func deleteWorksInTheLastBlocks(mode: Store.Configuration.IOMode, blocks: Int) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let item = Case(mode: mode, segmentSizeBytes: 64 << 20, isAutomatic: false)
    let first = try open(storage, item, checkpointFloorBytes: 1 << 40)
    for number in 0..<3 { try await first.set(Self.value, forKey: Key("\(number)")) }
    try await first.close()
    let store = try open(storage, item, checkpointFloorBytes: 1 << 40)
    try leave(blocks: blocks, of: storage)
    #expect(try await store.removeValue(forKey: "1") != nil)
    #expect(try await store.count() == 2)
    try #require(try storage.openDirectory("store")).remove("filler")
    try await store.close()
  }

  enum EarlierDelete: CaseIterable { case none, ofThisStore, ofAnotherProcess }

  /// Regression: the store's own deletes, which no caller can split, left the reserve to a compaction
  /// that had nothing to free, and failed for ever; also where an earlier delete had made it.
  @Test(arguments: EarlierDelete.allCases)
  func expiredEntriesAreDeletedInTheLastBlocks(earlier: EarlierDelete) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 64 << 20, ioMode: .mapped)
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 40
    configuration.clock = clock
    if earlier == .ofAnotherProcess { configuration.sharing = .shared }
    let first = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<256 {
      try await first.set([1], forKey: Key("\(number)"), expiring: .after(.seconds(5)))
    }
    if earlier != .none { try await first.set([1], forKey: "x") }
    try await first.close()
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let deleting =
      earlier == .ofAnotherProcess
      ? try Store(on: storage, at: "store", configuration: configuration) : store
    try leave(blocks: earlier == .none ? 6 : 4, of: storage)
    if earlier != .none {
      try await deleting.removeValue(forKey: "x")
      #expect(await deleting.reserveBytes > 0)
    }
    clock.advance(by: .seconds(1_000_000))
    try await store.removeExpired()
    #expect(await store.recordCount == 0)
    try #require(try storage.openDirectory("store")).remove("filler")
    try await store.close()
    if earlier == .ofAnotherProcess { try await deleting.close() }
  }

  /// Deletes make garbage. Where there is much of it, a compaction frees more than they do, so they
  /// leave the reserve to it.
  @Test func batchOfDeletesLeavesTheReserveToACompactionThatFreesMore() async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let item = Case(mode: .mapped, segmentSizeBytes: 64 << 20, isAutomatic: false)
    let first = try open(storage, item, checkpointFloorBytes: 1 << 40)
    for number in 0..<1000 { try await first.set([1], forKey: Key("\(number)")) }
    try await first.close()
    let store = try open(storage, item, checkpointFloorBytes: 1 << 40)
    try leave(blocks: 8, of: storage)
    for number in 0..<200 { try await store.removeValue(forKey: Key("\(number)")) }
    let reserveBytes = await store.reserveBytes
    #expect(reserveBytes > 0)
    let error = await #expect(throws: StoreError.self) {
      try await store.write { batch in
        for number in 200..<530 { try batch.removeValue(forKey: Key("\(number)")) }
      }
    }
    #expect(error?.code == .noSpace)
    #expect(await store.reserveBytes == reserveBytes)
    #expect(try await store.count() == 800)
    try #require(try storage.openDirectory("store")).remove("filler")
    try await store.close()
  }

  @Test func failedPutLeavesTheReserveOfADelete() async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let item = Case(mode: .mapped, segmentSizeBytes: 64 << 20, isAutomatic: false)
    let first = try open(storage, item, checkpointFloorBytes: 1 << 40)
    for number in 0..<100 { try await first.set([1], forKey: Key("\(number)")) }
    try await first.close()
    let store = try open(storage, item, checkpointFloorBytes: 1 << 40)
    try leave(blocks: 4, of: storage)
    try await store.removeValue(forKey: "1")
    var random = SeededGenerator(seed: 1)
    let large = (0..<100_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    let reserveBytes = await store.reserveBytes
    #expect(reserveBytes > 0)
    let error = await #expect(throws: StoreError.self) {
      try await store.write { batch in try batch.set(large, forKey: "large") }
    }
    #expect(error?.code == .noSpace)
    #expect(await store.reserveBytes == reserveBytes)
    try #require(try storage.openDirectory("store")).remove("filler")
    try await store.close()
  }

  /// Takes all but a number of the blocks that are left.
  private func leave(blocks: Int, of storage: MemoryStorage) throws {
    let directory = try #require(try storage.openDirectory("store"))
    let filler = try directory.createFile("filler")
    try fillUp(storage)
    try filler.truncate(to: filler.lengthBytes() - UInt64(blocks * 4096))
  }

  /// No caller compacts: overwriting continues as long as the live records fit.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func diskFullOfGarbageIsCleanedWithoutACall(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 100_000, ioMode: mode)
    // Only a full disk starts compaction.
    configuration.compaction.spaceAmplificationLimit = 100
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<10_000 {
      try await store.set(Self.value, forKey: Key("\(number % 500)"))
    }
    #expect(try await store.statistics().compactionBytes > 0, "3 MB in 1 MiB")
    #expect(try await store.count() == 500)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Recovery must write a manifest, and no block is left for it. The killed store keeps the blocks
  /// of its files, as another process of a shared store does: a copy of the open segment must leave
  /// a part of the reserve, whatever the segment's length.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aStoreThatWasKilledOnAFullDiskOpens(mode: Store.Configuration.IOMode) async throws {
    for blocks in 0..<26 {
      let storage = MemoryStorage(capacityBytes: (1 << 20) - blocks * 4096)
      let item = Case(mode: mode, segmentSizeBytes: 100_000, isAutomatic: false)
      let killed = try open(storage, item)
      let count = try await fill(killed, "old")
      let directory = try #require(try storage.openDirectory("store"))
      _ = try directory.createFile("filler")
      try fillUp(storage)
      try await killed.die()
      let store = try open(storage, item)
      #expect(try await store.count() == count, "\(blocks) blocks less")
      #expect(try await store.removeValue(forKey: "old 3", durability: .sync) != nil)
      try await store.close()
      withExtendedLifetime(killed) {}
    }
  }

  /// Takes every block that is left.
  private func fillUp(_ storage: MemoryStorage) throws {
    let directory = try #require(try storage.openDirectory("store"))
    let filler = try #require(try directory.openFile("filler", .readWrite))
    var length = try filler.lengthBytes()
    while try directory.freeBytes() > 0 {
      length += 4096
      try filler.allocate(from: 0, to: length)
    }
  }

  /// Regression: on XFS a file can be created only where some 200 KB are free, and the reserve was
  /// 64 KiB. Deletes that needed a new segment failed, and so did a compaction.
  @Test(arguments: cases)
  func deletesAndCompactionFreeAFullDiskOnWhichFilesAreDear(_ item: Case) async throws {
    let storage = MemoryStorage(capacityBytes: 2 << 20, creationBytes: 192 << 10)
    let store = try open(storage, item)
    let count = try await fill(store, "old")
    let directory = try #require(try storage.openDirectory("store"))
    if try directory.freeBytes() >= 192 << 10 { _ = try directory.createFile("filler") }
    if try directory.openFile("filler", .read) != nil { try fillUp(storage) }
    for number in 0..<count * 3 / 4 {
      #expect(try await delete(Key("old \(number)"), from: store), "key \(number) of \(count)")
    }
    try await store.compact()
    try directory.remove("filler")
    #expect(try await fill(store, "new") > count / 2)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: the same after a kill, for a store with three settings: it could not be opened for
  /// writing, because its manifest needs a file.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aSmallKilledStoreOpensOnAFullDiskOnWhichFilesAreDear(
    mode: Store.Configuration.IOMode
  ) async throws {
    let storage = MemoryStorage(capacityBytes: 2 << 20, creationBytes: 192 << 10)
    let item = Case(mode: mode, segmentSizeBytes: 64 << 20, isAutomatic: true)
    do {
      let killed = try open(storage, item)
      for number in 0..<3 { try await killed.set([1], forKey: Key("\(number)")) }
      let directory = try #require(try storage.openDirectory("store"))
      _ = try directory.createFile("filler")
      try fillUp(storage)
    }
    // Background work of the store holds the lock for a moment.
    var opened: Store?
    while opened == nil {
      do throws(StoreError) {
        opened = try Store(on: storage, at: "store", configuration: .testing(ioMode: mode))
      } catch {
        guard error.code == .locked else { throw error }
        await Task.yield()
      }
    }
    let store = try #require(opened)
    #expect(try await store.count() == 3)
    #expect(try await store.removeValue(forKey: "1", durability: .sync) != nil)
    #expect(try await store.count() == 2)
    try await store.close()
  }

  /// Compaction can gain nothing, and the attempt loses nothing.
  @Test func compactionOfAFullDiskWithoutGarbageIsHarmless() async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    let item = Case(mode: .mapped, segmentSizeBytes: 50_000, isAutomatic: false)
    let store = try open(storage, item)
    let count = try await fill(store, "old")
    do throws(StoreError) { try await store.compact() } catch { #expect(error.code == .noSpace) }
    #expect(try await store.count() == count)
    #expect(try await store.verify().isSound)
    try await store.removeValue(forKey: "old 7", durability: .sync)
    try await store.close()
    let again = try open(storage, item)
    #expect(try await again.count() == count - 1)
    try await again.close()
  }

  /// Regression: the error of one segment hid that the others were rewritten.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func compactionRewritesTheSegmentsThatFit(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage(capacityBytes: 4 << 20)
    let large = Case(mode: mode, segmentSizeBytes: 2_000_000, isAutomatic: false)
    let first = try open(storage, large)
    var generator = SeededGenerator(seed: 3)
    for number in 0..<1900 {
      let noise = (0..<300).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
      try await first.set(noise, forKey: Key("large \(number)"))
    }
    try await first.compact()
    try await first.close()
    let filler = try #require(try storage.openDirectory("store")).createFile("filler")
    var length: UInt64 = 0
    while try storage.openDirectory("store")!.freeBytes() > 400_000 {
      try filler.allocate(from: length, to: length + 4096)
      length += 4096
    }
    let small = Case(mode: mode, segmentSizeBytes: 40_000, isAutomatic: false)
    let store = try open(storage, small)
    let count = try await fill(store, "small")
    #expect(count > 300)
    let sizes = try await store.segmentStatistics().map(\.lengthBytes)
    try #require(sizes.max()! > 600_000)
    let keys =
      (0..<count).filter { $0 % 2 == 0 }.map { Key("small \($0)") }
      + (0..<1900).filter { $0 % 10 == 0 }.map { Key("large \($0)") }
    // Without a compaction the reserve may not hold all deletes.
    var removedCount = 0
    do throws(StoreError) {
      for key in keys {
        try await store.removeValue(forKey: key)
        removedCount += 1
      }
    } catch {
      #expect(error.code == .noSpace)
    }
    try #require(removedCount > count / 2 + 10)
    let report = try await store.compact()
    #expect(report.inputBytes > report.outputBytes + UInt64(count * 20))
    let lengths = try await store.segmentStatistics().map(\.lengthBytes)
    #expect(lengths.max()! > 600_000, "the segment is too large to be copied")
    #expect(try await fill(store, "new") > count / 4)
    #expect(try await store.count() > 1800)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: the running compaction only wrote a checkpoint, which frees nothing; the writer
  /// took its end for proof that no space can be freed.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aCheckpointUnderWayIsNotTheLastHope(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 100_000, ioMode: mode)
    configuration.compaction.spaceAmplificationLimit = 100
    configuration.checkpointFloorBytes = 0
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<6000 { try await store.set(Self.value, forKey: Key("\(number % 500)")) }
    #expect(try await store.count() == 500)
    try await store.close()
  }
}

extension Store {
  fileprivate var recordCount: Int? { engine?.live.count }

  fileprivate var reserveBytes: Int { engine?.log.reserve.lengthBytes ?? 0 }

  /// Releases the lock as the death of the process does. The remaining work of the pool's threads
  /// runs first: a dead process writes no manifest.
  fileprivate func die() async throws(StoreError) {
    try await waitUntilIdle()
    engine?.lockHandle()?.unlock()
  }
}
