import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A delete on a full disk while the disk is being cleaned.
@Suite(.timeLimit(.minutes(10))) struct DeletingOnFullDiskTests {
  /// Found in an optimized build under load: deletes used up the reserve before the compaction that
  /// they had started got a turn. Then the compaction had no block to write to, and the disk stayed
  /// full.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func aDeleteLeavesTheReserveToTheCompactionUnderWay(mode: Store.Configuration.IOMode) async throws
  {
    let disk = MemoryStorage(capacityBytes: 4 << 20)
    let storage = FaultStorage(disk)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 100_000, ioMode: mode)
    // Only a full disk starts compaction.
    configuration.compaction.spaceAmplificationLimit = 100
    configuration.checkpointFloorBytes = 1 << 40
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let value = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* $0 &* 7) }
    for number in 0..<4000 { try await store.set(value, forKey: Key("\(number % 2000)")) }
    try await store.waitUntilIdle()
    #expect(await store.hasWholeReserve)
    try takeEveryBlock(of: disk)
    let gate = Gate()
    let hasTakenReserve = Mutex(false)
    storage.setScript { event in
      // Compaction takes the whole reserve, and removes the file.
      if event.operation == .truncate, event.file == "RESERVE" {
        hasTakenReserve.withLock { $0 = true }
      }
      return event.operation == .createFile && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    async let deleting: Void = {
      for number in 0..<2000 { try await store.removeValue(forKey: Key("\(number)")) }
    }()
    await gate.arrival()
    #expect(!hasTakenReserve.withLock { $0 })
    gate.open()
    try await deleting
    #expect(try await store.count() == 0)
    try await store.set(value, forKey: "after")
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Found in the same way: other deletes took the space that a compaction had released for its
  /// copies.
  @Test func aDeleteLeavesSpaceReleasedByACompaction() async throws {
    let disk = MemoryStorage(capacityBytes: 4 << 20)
    let storage = FaultStorage(disk)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 100_000, ioMode: .positional)
    configuration.compaction.spaceAmplificationLimit = 100
    configuration.checkpointFloorBytes = 1 << 40
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let value = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* $0 &* 7) }
    for number in 0..<4000 { try await store.set(value, forKey: Key("\(number % 2000)")) }
    try await store.waitUntilIdle()
    try takeEveryBlock(of: disk)
    let gate = Gate()
    let isReleased = Mutex(false)
    storage.setScript { event in
      if event.operation == .remove, event.file == "RESERVE" { isReleased.withLock { $0 = true } }
      let isOutput = event.operation == .createFile && event.file.hasSuffix(".segment")
      return isOutput && isReleased.withLock { $0 } ? .hang(gate) : nil
    }
    async let first: Void = {
      for number in 0..<1000 { try await store.removeValue(forKey: Key("\(number)")) }
    }()
    await gate.arrival()
    let isDone = Mutex(false)
    async let second: Void = {
      for number in 1000..<2000 {
        try await store.removeValue(forKey: Key("\(number)"))
        isDone.withLock { $0 = true }
      }
    }()
    while await store.waitingForCompaction < 2, !isDone.withLock({ $0 }) { await Task.yield() }
    #expect(!isDone.withLock { $0 })
    gate.open()
    try await first
    try await second
    #expect(try await store.count() == 0)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Found on a real disk: an extension failed while a compaction had the space for its copies. The
  /// compaction ended before the delete could wait for it, and the delete was refused although there
  /// was space.
  @Test func aDeleteIsTriedAgainAfterTheCompactionThatTookItsSpace() async throws {
    let configuration = Store.Configuration.testing(segmentSizeBytes: 100_000)
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([1], forKey: "key")
    #expect(try await store.attempt(endingCompactions: 1) == 2)
    await #expect(throws: StoreError.self) { try await store.attempt(endingCompactions: 0) }
    await #expect(throws: StoreError.self, "an attempt is not repeated without end") {
      try await store.attempt(endingCompactions: .max)
    }
    try await store.close()
  }

  private func takeEveryBlock(of disk: MemoryStorage) throws {
    let directory = try #require(try disk.openDirectory("store"))
    let filler = try directory.createFile("filler")
    var length: UInt64 = 0
    while try directory.freeBytes() > 0 {
      try filler.allocate(from: length, to: length + 1)
      length += 4096
    }
  }
}

extension Store {
  fileprivate var waitingForCompaction: Int { compaction.waitingCount }

  /// Makes room for an attempt that finds no space as long as it has ended fewer than `count`
  /// compactions, and ends one each time.
  ///
  /// - Returns: the number of tries.
  fileprivate func attempt(endingCompactions count: Int) async throws(StoreError) -> Int {
    _ = try await releaseReserve()
    var tries = 0
    return try await withRoom(isDelete: true, mayWait: true) { (_) throws(StoreError) in
      tries += 1
      if count > 0, tries > count { return .done(tries) }
      if count > 0 {
        compaction.begin()
        compaction.end()
      }
      throw StoreError(.noSpace, "no space for try \(tries)")
    }
  }

  fileprivate var hasWholeReserve: Bool { engine?.log.reserve.isFull == true }
}
