import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A follower that does something else while it is promoted, or while it receives bytes.
@Suite(.timeLimit(.minutes(10))) struct FollowingUnderWayTests {
  private func follower(on storage: any Storage) async throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000)
    configuration.compaction = .manual
    configuration.compaction.sharesDictionaries = false
    configuration.checkpointFloorBytes = 1 << 40
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<60 { try await store.set([UInt8](0..<200), forKey: Key("\(number)")) }
    for number in 0..<30 { try await store.removeValue(forKey: Key("\(number * 2)")) }
    try await store.sync()
    try await store.waitUntilIdle()
    await store.beginToFollow()
    return store
  }

  /// Regression: the number that a compaction had taken was given back, and the manifest that listed
  /// the output was one that no opening accepts.
  @Test func failedPromotionGivesNoNumberBack() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await follower(on: storage)
    let (publishing, copying) = (Gate(), Gate())
    storage.setScript { event in
      if event.operation == .createFile, event.file.hasSuffix(".segment") { return .hang(copying) }
      guard event.file == Manifest.temporaryFileName else { return nil }
      switch event.operation {
      case .createFile: return .hang(publishing)
      case .write: return .fail(.noSpace)
      default: return nil
      }
    }
    let promotion = Task {
      try await store.beginLife(epoch: 9, instanceID: StoreIdentifier(low: 3, high: 4))
    }
    await publishing.arrival()
    let compaction = Task { try await store.compact(segments: 0..<100) }
    await copying.arrival()
    publishing.open()
    let error = await #expect(throws: StoreError.self) { try await promotion.value }
    #expect(error?.code == .noSpace)
    #expect(await store.following != nil)
    storage.setScript(nil)
    copying.open()
    try await compaction.value
    let numbers = await store.segmentNumbers()
    #expect(numbers.next > numbers.highest)
    #expect(store.poison == nil)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: a job wrote bytes that were received to the directory of a store that had left it,
  /// and the store counted them as received.
  @Test(arguments: [true, false])
  func storeLeavesItsDirectoryWhenNoBytesAreWritten(closes: Bool) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await follower(on: storage)
    let number = SegmentNumber(rawValue: 1 << 40)
    let gate = Gate()
    storage.setScript { event in
      event.operation == .createFile && event.file == number.fileName ? .hang(gate) : nil
    }
    let piece = LogPiece(
      segment: SegmentIdentity(number: number, epoch: 1, salt: 1), from: 0, bytes: [1, 2, 3])
    let receiving = Task { try await store.receive([piece]) }
    await gate.arrival()
    let hasLeft = Mutex(false)
    let leaving = Task {
      if closes { try await store.close() } else { try await store.suspend() }
      hasLeft.withLock { $0 = true }
    }
    while await !store.isLeaving { await Task.yield() }
    // A store that does not wait leaves in far fewer turns.
    for _ in 0..<20_000 where !hasLeft.withLock({ $0 }) { await Task.yield() }
    #expect(!hasLeft.withLock { $0 })
    gate.open()
    try await leaving.value
    let error = await #expect(throws: StoreError.self) { try await receiving.value }
    #expect(error?.code == (closes ? .closed : .suspended))
    #expect(await store.receivedCount == 0)
    if !closes { try await store.close() }
  }
}

extension Store {
  /// Makes the store one that follows an archive.
  fileprivate func beginToFollow() {
    engine!.log.manifest.following = Manifest.Following(
      archiveID: StoreIdentifier(low: 1, high: 2), position: 1, term: 1, nonceLow: 1,
      nonceHigh: 1, checkpoint: 0)
  }

  fileprivate var isLeaving: Bool { isClosed || isSuspended }

  /// The number of the next segment, and the highest one of the log.
  fileprivate func segmentNumbers() -> (next: UInt64, highest: UInt64) {
    let numbers = engine!.log.table.order.map { engine!.log.table.infos[$0].number.rawValue }
    return (engine!.log.manifest.nextSegmentNumber, numbers.max() ?? 0)
  }
}
