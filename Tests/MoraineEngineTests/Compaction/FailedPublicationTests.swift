import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Calls that run while a compaction publishes a manifest, for which the disk then has no space.
@Suite(.timeLimit(.minutes(10))) struct FailedPublicationTests {
  private static let value = [UInt8](0..<200)

  /// Every second of the first sixty keys is deleted, and the deletes are in sealed segments.
  private func store(
    on storage: any Storage, _ mode: Store.Configuration.IOMode
  ) async throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode)
    configuration.compaction = .manual
    configuration.compaction.sharesDictionaries = false
    configuration.checkpointFloorBytes = 1 << 40
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<60 { try await store.set(Self.value, forKey: Key("\(number)")) }
    for number in 0..<30 { try await store.removeValue(forKey: Key("\(number * 2)")) }
    for number in 60..<120 { try await store.set(Self.value, forKey: Key("\(number)")) }
    // A rotation publishes a manifest, too.
    try await store.waitUntilIdle()
    return store
  }

  private var model: [Key: [UInt8]] {
    let live = (0..<120).filter { $0 >= 60 || $0 % 2 == 1 }
    return Dictionary(uniqueKeysWithValues: live.map { (Key("\($0)"), Self.value) })
  }

  /// Compacts all sealed segments without success, and calls the body during the publication.
  private func failToPublish<Result: Sendable>(
    _ store: Store, _ storage: FaultStorage, during body: () async throws -> Result
  ) async throws -> Result {
    let gate = storage.failPublications()
    let compaction = Task { try await store.compact(segments: 0..<100) }
    await gate.arrival()
    defer { gate.open() }
    let result = try await body()
    gate.open()
    let error = await #expect(throws: StoreError.self) { try await compaction.value }
    #expect(error?.code == .noSpace)
    storage.setScript(nil)
    #expect(store.poison == nil)
    return result
  }

  /// Regression: the output was removed, although snapshots that were taken during the publication
  /// list it, and their scans found it missing.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func snapshotDuringAFailingPublicationStaysReadable(
    mode: Store.Configuration.IOMode
  ) async throws {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    let store = try await store(on: storage, mode)
    func segmentCount() throws -> Int {
      let directory = try #require(try memory.openDirectory("store"))
      return try directory.entries().count { $0.name.hasSuffix(".segment") }
    }
    let before = try segmentCount()
    var snapshot: Store.Snapshot? = try await failToPublish(store, storage) {
      try await store.snapshot()
    }
    try snapshot?.check(model, absent: ["0"])
    try await store.snapshot().check(model, absent: ["0"])
    snapshot = nil
    // Jobs run in order, also the one that removes the output.
    try await store.pipeline.run { () throws(StoreError) in }
    #expect(try segmentCount() == before)
    try await store.compact(segments: 0..<100)
    try await store.snapshot().check(model, absent: ["0"])
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: a feed without a pin expired during a publication that then failed, although no
  /// delete was lost.
  @Test func horizonRisesOnlyWithTheManifest() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, .mapped)
    let horizon = try await failToPublish(store, storage) { await store.feedHorizon() }
    #expect(horizon == SequenceNumber.none)
    #expect(await store.feedHorizon() == SequenceNumber.none)
    try await store.compact(segments: 0..<100)
    let raised = await store.feedHorizon()
    #expect(raised != nil && raised != SequenceNumber.none)
    try await store.close()
  }

  /// Regression: the index named copies in a file that was removed, and the next compaction removed
  /// the originals as garbage.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func indexRebuiltBeforeAFailedPublicationLosesNothing(
    mode: Store.Configuration.IOMode
  ) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, mode)
    // A read that meets a damaged page of a checkpoint does the same.
    try await failToPublish(store, storage) { try await store.rebuildIndexFromLog() }
    for (key, value) in model { #expect(try await store.value(forKey: key) == value) }
    try await store.compact(segments: 0..<100)
    try await store.snapshot().check(model, absent: ["0"])
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: an error that named no input of a compaction marked all of them as damaged.
  @Test func damageElsewhereMarksNoSoundSegment() async throws {
    let store = try await store(on: MemoryStorage(), .mapped)
    let other = SegmentNumber(rawValue: 9999).fileName
    #expect(await store.markedSegments(after: other).isEmpty)
    let own = try await #require(store.segmentNames().first)
    #expect(await store.markedSegments(after: own) == [own])
    try await store.close()
  }

  /// Regression: a feed read the output, which lacks the deletes, before its horizon had risen.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func feedDuringAPublicationMissesNoDelete(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, mode)
    store.waitForIteratorsNever()
    let last = try await store.set(Self.value, forKey: "last")
    func removals() async throws -> Set<Key> {
      var removed: Set<Key> = []
      for try await change in store.changes(after: SequenceNumber(rawValue: 60)) {
        if change.isRemoval { removed.insert(change.key) }
        if change.sequence >= last { break }
      }
      return removed
    }
    let expected = Set((0..<30).map { Key("\($0 * 2)") })
    let during = try await failToPublish(store, storage, during: removals)
    #expect(during == expected)
    let after = try await removals()
    #expect(after == expected)
    try await store.compact(segments: 0..<100)
    let error = await #expect(throws: StoreError.self) { try await removals() }
    #expect(error?.code == .cursorExpired)
    try await store.close()
  }

  /// Regression: the number below which digests may be wrong fell again, where no copy showed that
  /// the index had been rebuilt.
  @Test func rebuildingDuringAFailedPublicationIsRemembered() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, .mapped)
    for number in 0..<120 { try await store.removeValue(forKey: Key("\(number)")) }
    try await failToPublish(store, storage) {}
    #expect(await store.compactedThrough() == SequenceNumber.none)
    try await failToPublish(store, storage) { try await store.rebuildIndexFromLog() }
    let last = try await store.lastSequence()
    #expect(await store.compactedThrough() == last)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: the manifest that was adopted after a publication was older than the rebuilding.
  @Test func rebuildingDuringAPublicationIsRemembered() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, .mapped)
    let gate = Gate()
    storage.setScript { event in
      event.file == Manifest.temporaryFileName && event.operation == .createFile
        ? .hang(gate) : nil
    }
    // One publication: the next one would note a number of its own.
    let compaction = Task { try await store.compact(segments: 0..<1) }
    await gate.arrival()
    let noted = await store.noteWrongDigests()
    gate.open()
    try await compaction.value
    storage.setScript(nil)
    #expect(await store.compactedThrough() == noted)
    try await store.set(Self.value, forKey: "later")
    try await store.close()
  }
}

extension Store {
  fileprivate func rebuildIndexFromLog() throws(StoreError) { try engine!.rebuildIndex() }

  fileprivate func segmentNames() -> [String] {
    engine!.log.table.order.map { engine!.log.table.fileName($0) }
  }

  /// Reports damage of a file, and returns the segments that are marked as damaged then.
  fileprivate func markedSegments(after file: String) -> [String] {
    let error = StoreError(.corrupted, "a planted damage", file: file)
    engine!.log.table.noteDamage(error, among: engine!.log.table.order)
    return engine!.log.table.order.filter { engine!.log.table.damage[$0] != nil }
      .map { engine!.log.table.fileName($0) }
  }

  fileprivate func feedHorizon() -> SequenceNumber? { engine?.log.manifest.feedHorizon }

  fileprivate func compactedThrough() -> SequenceNumber? { engine?.log.manifest.compactedThrough }

  /// Notes that digests in the log may be wrong, as a rebuilding of the index after one more write
  /// does.
  fileprivate func noteWrongDigests() -> SequenceNumber {
    let number = SequenceNumber(rawValue: engine!.log.lastSequence + 1)
    engine!.log.manifest.compactedThrough = number
    return number
  }
}

extension FaultStorage {
  /// Lets each publication of a manifest wait at a gate, and then find the disk full.
  func failPublications() -> Gate {
    let gate = Gate()
    setScript { event in
      guard event.file == Manifest.temporaryFileName else { return nil }
      switch event.operation {
      case .createFile: return .hang(gate)
      case .write: return .fail(.noSpace)
      default: return nil
      }
    }
    return gate
  }
}
