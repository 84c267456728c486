import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// The index checkpoint spares reading the log, and never takes precedence over the log.
@Suite(.timeLimit(.minutes(10))) struct CheckpointTests {
  private func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  /// - Returns: the contents of the store.
  private func makeStore(
    _ directory: TestDirectory, _ mode: Store.Configuration.IOMode
  ) async throws -> [Key: [UInt8]] {
    var model: [Key: [UInt8]] = [:]
    let store = try Store(at: directory.path, configuration: configuration(mode))
    for number in 0..<400 {
      let key = Key("key \(number % 250)")
      model[key] = [UInt8](repeating: UInt8(number % 251), count: 10)
      try await store.set(model[key] ?? [], forKey: key)
    }
    for number in 0..<20 {
      model[Key("key \(number)")] = nil
      try await store.removeValue(forKey: Key("key \(number)"))
    }
    try await store.close()
    return model
  }

  private func check(
    _ store: Store, _ model: [Key: [UInt8]], _ what: Comment
  ) async throws {
    #expect(try await store.count() == model.count, what)
    for number in 0..<260 {
      let key = Key("key \(number)")
      #expect(try await store.value(forKey: key) == model[key], what)
    }
  }

  private func checkpoint(in directory: TestDirectory) throws -> URL {
    let names = try directory.names().filter { $0.hasSuffix(".index") }
    try #require(names.count == 1, "\(names)")
    return directory.store.appendingPathComponent(names[0])
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func openingAfterAnOrderlyCloseReplaysNothing(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let model = try await makeStore(directory, mode)
    let store = try Store(at: directory.path, configuration: configuration(mode))
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(await store.recoveryReport.replayedBytes == 0)
    #expect(await store.recoveryReport.recordCount == 420)
    try await check(store, model, "opened")
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// A page that is read long after opening, and is damaged: the index is rebuilt from the log,
  /// whatever operation is running.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional], [true, false])
  func aPageFoundDamagedLaterIsRebuilt(mode: Store.Configuration.IOMode, writes: Bool) async throws
  {
    let directory = try TestDirectory()
    var configuration = configuration(mode)
    configuration.segmentSizeBytes = 4 << 20
    let count = 260_000
    try await withStore(at: directory.path, configuration: configuration) { store in
      for start in stride(from: 0, to: count, by: 10_000) {
        try await store.write { batch in
          for number in start..<start + 10_000 { try batch.set([], forKey: Key("\(number)")) }
        }
      }
    }
    let url = try checkpoint(in: directory)
    var bytes = try Data(contentsOf: url)
    let place = try #require(bytes.indices.dropFirst(4096).first { bytes[$0] != 0 })
    bytes[place] ^= 0xFF
    try bytes.write(to: url)
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint, "only the last pages were read")
    for number in stride(from: 0, to: count, by: 7) {
      let key = Key("\(number)")
      if writes { try await store.set([7], forKey: key) }
      #expect(try await store.value(forKey: key) == (writes ? [7] : []))
    }
    #expect(try await store.count() == count)
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(try await again.count() == count)
    // Without a write, the store keeps its damaged checkpoint.
    let problems = try await again.verify().problems
    #expect(problems.map(\.file) == (writes ? [] : ["*.index"]))
    #expect(await (again.recoveryReport.checkpointProblem == nil) == writes)
    #expect(try await again.verify().isSound, "the index was rebuilt from the log")
    try await again.close()
  }

  /// An old checkpoint has the newest record of the key; segments that compaction wrote later hold
  /// an older delete of the same key, and are replayed.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func anOlderDeleteThatIsReplayedHidesNothingNewer(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = configuration(mode)
    configuration.segmentSizeBytes = 400
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([1], forKey: "key")
      for number in 0..<8 { try await store.set([UInt8](0..<50), forKey: Key("a\(number)")) }
      try await store.removeValue(forKey: "key")
      for number in 0..<8 { try await store.set([UInt8](0..<50), forKey: Key("b\(number)")) }
      try await store.set([2], forKey: "key")
      for number in 0..<8 { try await store.set([UInt8](0..<50), forKey: Key("c\(number)")) }
    }
    let url = try checkpoint(in: directory)
    let old = try Data(contentsOf: url)
    try await withStore(at: directory.path, configuration: configuration) { store in
      // Neither the first segment, which holds the record that the delete hides, nor the segments
      // after the delete.
      let count = try await store.statistics().segmentCount
      try await store.compact(segments: 1..<count / 2)
    }
    try FileManager.default.removeItem(at: try checkpoint(in: directory))
    try old.write(to: url)
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(await store.recoveryReport.replayedBytes > 0)
    #expect(try await store.value(forKey: "key") == [2])
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// The checkpoint of another store with the same name is ignored.
  @Test func anotherStoresCheckpointIsIgnored() async throws {
    let directory = try TestDirectory()
    let model = try await makeStore(directory, .mapped)
    let other = try TestDirectory()
    _ = try await makeStore(other, .mapped)
    let url = try checkpoint(in: directory)
    try Data(contentsOf: try checkpoint(in: other)).write(to: url)
    let store = try Store(at: directory.path, configuration: configuration(.mapped))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    #expect(await store.recoveryReport.checkpointProblem == nil)
    try await check(store, model, "of another store")
    try await store.close()
  }

  /// It is undamaged; only this version cannot read it.
  @Test func newerVersionsCheckpointIsIgnored() async throws {
    let directory = try TestDirectory()
    let model = try await makeStore(directory, .mapped)
    let url = try checkpoint(in: directory)
    var bytes = [UInt8](try Data(contentsOf: url))
    let length = try bytes.withUnsafeBytes { try CheckpointHeader.claimedLength($0) }
    bytes[8] = 99
    bytes.store(Checksum.of(Array(bytes[..<(length - 4)])), at: length - 4)
    try Data(bytes).write(to: url)
    let store = try Store(at: directory.path, configuration: configuration(.mapped))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    #expect(await store.recoveryReport.checkpointProblem == nil)
    try await check(store, model, "of a newer version")
    try await store.close()
  }

  /// Regression: the checkpoint could not be read, and therefore the store could not be opened.
  @Test(arguments: [StorageEvent.Operation.openFile, .length, .read, .map])
  func unreadableCheckpointIsIgnored(_ operation: StorageEvent.Operation) async throws {
    let directory = try TestDirectory()
    let model = try await makeStore(directory, .mapped)
    let name = try checkpoint(in: directory).lastPathComponent
    let storage = FaultStorage(DiskStorage())
    storage.setScript { event in
      guard event.operation == operation, event.file == name else { return nil }
      return .fail(operation == .map ? .noMemory : .ioError)
    }
    let store = try Store(
      on: storage, at: directory.path, configuration: configuration(.mapped))
    let report = await store.recoveryReport
    #expect(!report.usedCheckpoint)
    #expect(report.checkpointProblem?.code == (operation == .map ? .limitExceeded : .io))
    storage.setScript(nil)
    try await check(store, model, "without the checkpoint")
    try await store.close()
  }

  @Test func smallStoreHasNoCheckpoint() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    #expect(try directory.names() == ["0000000001.segment", "LOCK", "MANIFEST"])
  }

  /// The checkpoint gets its name only when the records that it covers are durable: a power failure
  /// may lose everything else, and what is left must be consistent.
  @Test func checkpointIsPublishedAfterTheLogIsDurable() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: configuration(.mapped))
    for number in 0..<30 { try await store.set([1], forKey: Key("\(number)")) }
    storage.clearTrace()
    try await store.compact()
    let trace = storage.trace
    let rename = try #require(
      trace.firstIndex { $0.operation == .rename && $0.file == "INDEX.tmp" })
    let sync = try #require(
      trace[..<rename].lastIndex { $0.operation == .synchronizeFull && $0.file == "INDEX.tmp" })
    #expect(
      trace[..<sync].contains { $0.operation.isSync && $0.file == "0000000001.segment" })
    try await store.close()
  }

  /// Regression: each snapshot that ended began another round over the pages that a checkpoint had
  /// copied, and a compaction beside such snapshots did not end.
  @Test func compactionEndsBesideSnapshotsThatComeAndGo() async throws {
    var configuration = Store.Configuration.testing()
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<100_000 { try await store.set([1], forKey: Key("\(number)")) }
    // The pages that change now stay copied as long as this snapshot needs the originals.
    let kept = try await store.snapshot()
    for number in 0..<100_000 { try await store.set([2], forKey: Key("\(number)")) }
    let others = Task { try await store.takeSnapshotsUntilCancelled() }
    try await store.compact()
    others.cancel()
    try await others.value
    #expect(try kept.value(forKey: "7") == [1])
    try await store.close()
  }
}

extension Store {
  /// Takes and releases snapshots, each of another state: snapshots of one state share their pages.
  /// The actor runs each between two steps of other tasks.
  fileprivate func takeSnapshotsUntilCancelled() async throws(StoreError) {
    while !Task.isCancelled {
      try await set([3], forKey: "other")
      _ = try await snapshot()
      await Task.yield()
    }
  }
}
