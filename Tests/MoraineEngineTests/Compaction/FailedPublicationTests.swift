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
}

extension Store {
  fileprivate func feedHorizon() -> SequenceNumber? { engine?.log.manifest.feedHorizon }
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
