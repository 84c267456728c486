import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Names that a dead process did not make durable: the next process makes them durable before it
/// creates, removes or trusts anything.
@Suite(.timeLimit(.minutes(10))) struct UnsyncedNamesTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Store.Configuration.IOMode
    let sharing: Store.Configuration.Sharing
    var testDescription: String { "\(mode), \(sharing)" }

    var configuration: Store.Configuration {
      var configuration = Store.Configuration.testing(segmentSizeBytes: 300, ioMode: mode)
      configuration.compaction = .manual
      configuration.sharing = sharing
      return configuration
    }
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [Store.Configuration.Sharing.exclusive, .shared].map { Case(mode: mode, sharing: $0) }
  }

  /// The user made the directory, or a process that died before it synced the parent.
  @Test(arguments: cases)
  func aDirectoryMadeBeforehandSurvivesAPowerFailure(_ item: Case) async throws {
    let disk = SimulatedDisk()
    try disk.makeDirectory("store")
    let store = try disk.openStore(configuration: item.configuration)
    try await store.set([1], forKey: "a", durability: .sync)
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(
      configuration: item.configuration)
    #expect(try await after.value(forKey: "a") == [1])
    try await after.close()
    try await store.close()
  }

  /// Includes a directory that already has a store: an engine that did not sync it may have created
  /// it.
  @Test func theDirectoryOfAStoreIsMadeDurableAtOpening() async throws {
    let disk = SimulatedDisk()
    disk.omitSyncs(of: .parent)
    let store = try disk.openStore()
    try await store.set([1], forKey: "a", durability: .sync)
    try await store.close()
    let next = SimulatedDisk(disk.moment())
    #expect(next.image(.nothing).directories["store"] == nil)
    let again = try next.openStore()
    #expect(next.image(.nothing).directories["store"] != nil)
    try await again.close()
  }

  @Test func openingReadOnlySyncsNothing() async throws {
    let memory = MemoryStorage()
    try await withStore(on: memory) { try await $0.set([1], forKey: "a") }
    let storage = FaultStorage(memory)
    var configuration = Store.Configuration()
    configuration.isReadOnly = true
    let reader = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [1])
    try await reader.close()
    #expect(!storage.trace.contains { $0.operation.isSync })
  }

  private func withStore(
    on storage: any Storage, _ body: (Store) async throws -> Void
  ) async throws {
    let store = try Store(on: storage, at: "store")
    try await body(store)
    try await store.close()
  }

  @Test(arguments: BackupBench.modes)
  func targetsMadeBeforehandSurviveAPowerFailure(mode: Store.Configuration.IOMode) async throws {
    let disk = SimulatedDisk()
    let bench = try BackupBench(mode, on: disk)
    try await bench.store.set([1], forKey: "a", durability: .sync)
    for path in ["backup", "restored", "salvaged"] { try disk.makeDirectory(FilePath(path)) }
    _ = try await bench.store.backup(to: "backup", on: disk)
    try await bench.store.close()
    _ = try await Store.restore("backup", to: "restored", on: disk)
    _ = try await Store.salvage("store", to: "salvaged", on: disk)
    let after = SimulatedDisk(disk.image(.nothing))
    for path in ["backup", "restored", "salvaged"] {
      var reading = bench.configuration
      reading.isReadOnly = true
      let store = try after.openStore(at: FilePath(path), configuration: reading)
      #expect(try await store.value(forKey: "a") == [1], "\(path)")
      try await store.close()
    }
  }

  /// The process is killed before each of its syncs of the directory; the next process reads and
  /// writes, and the power fails at one of its calls, or after them.
  @Test(arguments: cases)
  func theNextProcessStandsOnDurableNames(_ item: Case) async throws {
    let disk = SimulatedDisk()
    let storage = FaultStorage(disk)
    let moments = Moments()
    storage.setScript { event in
      if event.operation == .synchronizeDirectory { moments.append(disk.moment()) }
      return nil
    }
    let store = try Store(on: storage, at: "store", configuration: item.configuration)
    for number in 0..<12 {
      try await store.set([UInt8](repeating: 7, count: 60), forKey: Key("\(number % 5)"))
    }
    try await store.compact()
    storage.setScript(nil)
    try await store.close()
    #expect(moments.all.count > 8)
    for (number, moment) in moments.all.enumerated() {
      let next = SimulatedDisk(moment)
      let during = Moments()
      next.setObserver { [unowned next] in during.append(next.moment()) }
      let second = try next.openStore(configuration: item.configuration)
      try await second.set([8], forKey: "next", durability: .sync)
      next.setObserver(nil)
      for (call, moment) in during.all.enumerated() {
        for (policy, image) in moment.images(subsets: 6, torn: 0, seed: 1) {
          let third = try SimulatedDisk(image).openStore(configuration: item.configuration)
          #expect(
            try await third.verify().isSound, "killed at sync \(number), call \(call), \(policy)")
          try await third.close()
        }
      }
      let expected = try await second.contents()
      for (policy, image) in next.moment().images(subsets: 30, torn: 0, seed: 1) {
        let third = try SimulatedDisk(image).openStore(configuration: item.configuration)
        #expect(try await third.contents() == expected, "killed at sync \(number), \(policy)")
        try await third.close()
      }
      try await second.close()
    }
  }

  /// `RESTORING` is removed only when the manifest that replaces it is durable, and everything that
  /// the manifest lists.
  @Test(arguments: BackupBench.modes)
  func aRestoredStoreThatWasServedSurvivesAPowerFailure(
    mode: Store.Configuration.IOMode
  ) async throws {
    let disk = SimulatedDisk()
    let bench = try BackupBench(mode, on: disk, segmentSizeBytes: 400)
    var states: [UInt64: BackupBench.State] = [:]
    let expected = try await BackupBench.write(0..<40, to: bench.store, &states)
    _ = try await bench.store.backup(to: "backup", on: disk)
    try await bench.store.close()
    let storage = FaultStorage(disk)
    let moments = Moments()
    storage.setScript { event in
      if event.operation == .synchronizeDirectory { moments.append(disk.moment()) }
      return nil
    }
    _ = try await Store.restore("backup", to: "restored", on: storage)
    // The last sync is that of the final renaming.
    let next = SimulatedDisk(try #require(moments.all.last))
    let store = try next.openStore(at: "restored", configuration: bench.configuration)
    #expect(try await store.everything() == expected)
    for (policy, image) in next.moment().images(subsets: 60, torn: 0, seed: 1) {
      let after = try SimulatedDisk(image).openStore(
        at: "restored", configuration: bench.configuration)
      #expect(try await after.everything() == expected, "\(policy)")
      try await after.close()
    }
    try await store.close()
  }

  /// Whatever a failed restore or a failed salvage has left, a power failure does not make the next
  /// one impossible.
  @Test(arguments: BackupBench.modes, [false, true])
  func failedRestoreOrSalvageCanBeRepeatedAfterAPowerFailure(
    mode: Store.Configuration.IOMode, isSalvage: Bool
  ) async throws {
    let disk = SimulatedDisk()
    let bench = try BackupBench(mode, on: disk, segmentSizeBytes: 400)
    var states: [UInt64: BackupBench.State] = [:]
    let expected = try await BackupBench.write(0..<30, to: bench.store, &states)
    _ = try await bench.store.backup(to: "backup", on: disk)
    try await bench.store.close()
    @Sendable func run(_ storage: any Storage) async throws(StoreError) {
      if isSalvage {
        _ = try await Store.salvage("store", to: "target", on: storage)
      } else {
        _ = try await Store.restore("backup", to: "target", on: storage)
      }
    }
    let storage = FaultStorage(disk)
    // Late enough that all segments exist.
    let isFailed = Mutex(false)
    storage.setScript { event in
      guard event.operation == .createFile, event.file == "MANIFEST.tmp" else { return nil }
      return isFailed.withLock { isFailed in
        isFailed = isFailed || disk.hasSegments(in: "target")
        return isFailed ? .fail(.ioError) : nil
      }
    }
    let moments = Moments()
    disk.setObserver { [unowned disk] in moments.append(disk.moment()) }
    await #expect(throws: StoreError.self) { try await run(storage) }
    disk.setObserver(nil)
    for moment in moments.all.suffix(14) + [disk.moment()] {
      for (policy, image) in moment.images(subsets: 12, torn: 0, seed: 1) {
        let after = SimulatedDisk(image)
        do throws(StoreError) { try await run(after) } catch {
          Issue.record("\(policy): \(error)")
          continue
        }
        let store = try after.openStore(at: "target", configuration: bench.configuration)
        #expect(try await store.everything() == expected)
        try await store.close()
      }
    }
  }
}

extension SimulatedDisk {
  fileprivate func hasSegments(in path: String) -> Bool {
    image(.everything).directories[path]?.keys.contains { $0.hasSuffix(".segment") } ?? false
  }
}
