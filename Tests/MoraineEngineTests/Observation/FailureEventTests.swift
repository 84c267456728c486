import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Failures of background work are reported; the end of all writing is reported once.
@Suite(.timeLimit(.minutes(10))) struct FailureEventTests {
  private static let value = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* $0 &* 7) }
  private let log = EventLog()

  private func open(_ storage: any Storage, _ configuration: Store.Configuration) throws -> Store {
    try Store(on: storage, at: "store", configuration: configuration.telling(log))
  }

  @Test func failedSyncPoisonsAndIsReportedOnce() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try open(storage, .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    storage.setScript { $0.operation == .synchronizeData ? .fail(.ioError) : nil }
    await withTaskGroup { group in
      for number in 0..<50 {
        group.addTask {
          await #expect(throws: StoreError.self) {
            try await store.set([1], forKey: Key("\(number)"), durability: .sync)
          }
        }
      }
    }
    try await store.close()
    #expect(log.names == ["opened", "poisoned", "closed"])
    #expect(log.failures("poisoned").map(\.code) == [.poisoned])
    #expect(log.failures("poisoned").first?.errno == .ioError)
    #expect(log.failures("closed").isEmpty)
  }

  /// Several threads, and other processes too, may find that the disk fails.
  @Test func onlyTheFirstPoisonIsReported() async throws {
    let relay = try #require(EventRelay(log.add))
    let pipeline = CommitPipeline(events: relay)
    for number in 1...3 { pipeline.poison(StoreError(.io, "failure \(number)")) }
    await relay.delivered()
    #expect(log.names == ["poisoned"])
    #expect(log.failures("poisoned").first?.message.contains("failure 1") == true)
  }

  @Test func failedBackgroundSyncIsReported() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try open(storage, .testing(durability: .interval(.milliseconds(1))))
    storage.setScript { $0.operation == .synchronizeData ? .fail(.ioError) : nil }
    try await store.set([1], forKey: "a")
    await log.arrival(of: "poisoned")
    try await store.close()
    #expect(log.names == ["opened", "poisoned", "closed"])
  }

  @Test func errorOfClosingIsReported() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try open(storage, .testing())
    try await store.set([1], forKey: "a")
    storage.setScript { $0.operation == .synchronizeFull ? .fail(.ioError) : nil }
    await #expect(throws: StoreError.self) { try await store.close() }
    #expect(log.names == ["opened", "poisoned", "closed"])
    #expect(log.failures("closed").first?.errno == .ioError)
  }

  @Test func failedCheckpointIsReported() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration.testing()
    configuration.checkpointFloorBytes = 0
    let store = try open(storage, configuration)
    for number in 0..<20 { try await store.set([1], forKey: Key("\(number)")) }
    storage.setScript { event in
      event.operation == .createFile && event.file == "INDEX.tmp" ? .fail(.noSpace) : nil
    }
    try await store.close()
    #expect(log.names == ["opened", "sealed", "checkpointFailed", "closed"])
    #expect(log.failures("checkpointFailed").first?.code == .noSpace)
    #expect(await store.checkpointFailure?.code == .noSpace)
  }

  @Test func failedBackgroundManifestIsReported() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.compaction = .manual
    let store = try open(storage, configuration)
    try await store.set([1], forKey: "first")
    let isSealing = Atomic<Bool>(false)
    storage.setScript { event in
      if event.operation == .truncate, event.file == "0000000001.segment" {
        isSealing.store(true, ordering: .relaxed)
      }
      let isManifest = event.operation == .createFile && event.file == "MANIFEST.tmp"
      guard isManifest, isSealing.exchange(false, ordering: .relaxed) else { return nil }
      return .fail(.tooManyOpenFiles)
    }
    for number in 0..<40 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    await log.arrival(of: "manifestFailed")
    try await store.close()
    #expect(Array(log.names.prefix(3)) == ["opened", "sealed", "manifestFailed"])
    #expect(log.count("manifestFailed") == 1 && log.count("poisoned") == 0)
    #expect(log.failures("manifestFailed").first?.errno == .tooManyOpenFiles)
    #expect(log.failures("closed").isEmpty)
  }

  @Test func failedBackgroundCompactionIsReported() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try open(storage, .testing(segmentSizeBytes: 4000))
    try await store.set([1], forKey: "first")
    // Only compaction opens segments here.
    storage.setScript { event in
      event.operation == .openFile && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    var number = 0
    while log.count("compactionFailed") == 0 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number % 20)"))
      number += 1
    }
    storage.setScript(nil)
    #expect(log.failures("compactionFailed").first?.errno == .ioError)
    try await store.close()
    #expect(log.count("poisoned") == 0)
  }

  /// Compaction ignores the segment from then on, so that nothing more is reported.
  @Test func damagedSegmentIsReportedOnce() async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 20_000).telling(log)
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<10 { try await store.set([UInt8](0..<60), forKey: "key \(number)") }
    try Forgery(directory: directory).changeSegment { $0[200] ^= 0xFF }
    for number in 0..<2500 { try await store.set([UInt8](0..<60), forKey: "other \(number % 10)") }
    try await store.waitUntilIdle()
    try await store.close()
    #expect(log.failures("compactionFailed").map(\.code) == [.corrupted])
    #expect(log.failures("compactionFailed").first?.file == "0000000001.segment")
    #expect(log.count("compacted") > 0)
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func fullDiskIsReportedOnceUntilSpaceReturns(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage(capacityBytes: 1 << 20)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 20_000, ioMode: mode)
    configuration.compaction = .manual
    let store = try open(storage, configuration)
    try await store.set([1], forKey: "first")
    let directory = try #require(try storage.openDirectory("store"))
    for round in 1...2 {
      let filler = try directory.createFile("filler")
      try fill(directory, filler)
      try await putUntilItIsFull(store)
      for _ in 0..<10 {
        let error = await #expect(throws: StoreError.self) {
          try await store.set(Self.value, forKey: "more")
        }
        #expect(error?.code == .noSpace)
      }
      await log.arrival(of: "outOfSpace", times: round)
      #expect(log.count("outOfSpace") == round)
      try filler.truncate(to: 0)
      try directory.remove("filler")
      for number in 0..<200 { try await store.set(Self.value, forKey: Key("\(number)")) }
    }
    try await store.close()
    #expect(log.failures("outOfSpace").map(\.code) == [.noSpace, .noSpace])
    #expect(log.count("poisoned") == 0)
  }

  private func fill(_ directory: any StorageDirectory, _ file: any StorageFile) throws {
    var length: UInt64 = 0
    while try directory.freeBytes() > 0 {
      try file.allocate(from: length, to: length + 1)
      length += 4096
    }
  }

  /// Uses up the space that was allocated before.
  private func putUntilItIsFull(_ store: Store) async throws {
    for number in 0..<1000 {
      do throws(StoreError) {
        try await store.set(Self.value, forKey: Key("\(number)"))
      } catch {
        return
      }
    }
  }
}
