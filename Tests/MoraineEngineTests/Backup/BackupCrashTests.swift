import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// The crash laboratory over backups and restores: a power failure at every call of either.
@Suite(.timeLimit(.minutes(10))) struct BackupCrashTests {
  private struct Wrong: Error {
    let what: String
  }

  private static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 400, ioMode: mode)
    configuration.compaction = .manual
    return configuration
  }

  private static func write(_ number: Int, to store: Store) async throws {
    for part in 0..<6 {
      try await store.set(
        Array("round \(number) \(part) ".utf8) + [UInt8](repeating: 1, count: 40),
        forKey: Key("key \(part)"), durability: .sync)
    }
    if number > 0 { try await store.removeValue(forKey: Key("key \(number)"), durability: .sync) }
  }

  private static func state(after rounds: Int) -> BackupBench.State {
    guard rounds > 0 else { return [:] }
    let number = rounds - 1
    var state: BackupBench.State = [:]
    for part in 0..<6 where number == 0 || part != number {
      state[Key("key \(part)")] =
        Array("round \(number) \(part) ".utf8) + [UInt8](repeating: 1, count: 40)
    }
    return state
  }

  /// Returns a name that no directory has.
  private static func freePath(on disk: SimulatedDisk) throws -> FilePath {
    var number = 0
    while try disk.openDirectory(FilePath("restored \(number)")) != nil { number += 1 }
    return FilePath("restored \(number)")
  }

  /// A backup that returned exists after every later crash, also after a crash during a further
  /// backup over it.
  @Test(arguments: BackupBench.modes)
  func everyCrashLeavesABackup(mode: Store.Configuration.IOMode) async throws {
    let configuration = Self.configuration(mode)
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (2, 1)
    experiment.killPeriod = 17
    let tally = try await experiment.run { disk, ledger in
      let store = try disk.openStore(configuration: configuration)
      for round in 0..<3 {
        try await Self.write(round, to: store)
        if round == 1 { _ = try await store.compact() }
        ledger.begin()
        _ = try await store.backup(to: "backup", on: disk)
        ledger.becomeDurable()
      }
      try await store.close()
    } check: { disk, steps in
      let hasBackup = try disk.openDirectory("backup")?.openFile("MANIFEST", .read) != nil
      guard hasBackup else {
        guard steps.contains(0) else { throw Wrong(what: "no backup, but \(steps)") }
        return
      }
      let first = try Self.freePath(on: disk)
      _ = try await Store.restore("backup", to: first, on: disk)
      let store = try disk.openStore(at: first, configuration: configuration)
      let found = try await store.everything()
      try await store.close()
      // A check that was crashed itself has written this key, and backed up the state of that time.
      let isFromCheck = found["after"] != nil
      guard isFromCheck || steps.contains(where: { found == Self.state(after: Int($0)) }) else {
        throw Wrong(what: "\(found.keys.sorted { "\($0)" < "\($1)" }) is none of \(steps)")
      }
      // The store continues where the crash left it, and the next backup takes the place.
      let original = try disk.openStore(configuration: configuration)
      if isFromCheck {
        guard try await original.everything() == found else { throw Wrong(what: "another moment") }
      }
      try await original.set([1], forKey: "after", durability: .sync)
      let expected = try await original.everything()
      _ = try await original.backup(to: "backup", on: disk)
      try await original.close()
      let second = try Self.freePath(on: disk)
      _ = try await Store.restore("backup", to: second, on: disk)
      let again = try disk.openStore(at: second, configuration: configuration)
      guard try await again.everything() == expected else { throw Wrong(what: "the next backup") }
      try await again.close()
    }
    #expect(tally.crashPoints > 100)
  }

  /// The sync that seals a segment fails. A hard link to its file, synced again, would lose the
  /// bytes too.
  ///
  /// Regression: where each operation was synced before, only the footer was lost, and the backup
  /// had a link to the file.
  @Test(arguments: BackupBench.modes, [Durability.none, .sync])
  func backupDoesNotShareASegmentWhoseSyncFailed(
    mode: Store.Configuration.IOMode, durability: Durability
  ) async throws {
    let configuration = Self.configuration(mode)
    let disk = SimulatedDisk()
    let storage = FaultStorage(disk)
    let isSealing = Mutex(false)
    storage.setScript { event in
      guard event.file == "0000000001.segment" else { return nil }
      if event.operation == .truncate { isSealing.withLock { $0 = true } }
      let isStruck = event.operation == .synchronizeFull && isSealing.withLock { $0 }
      return isStruck ? .dropUnsynced(.ioError) : nil
    }
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var number = 0
    while store.poison == nil {
      do throws(StoreError) {
        try await store.set(
          [UInt8](repeating: 1, count: 50), forKey: Key("\(number)"), durability: durability)
        try await store.waitUntilIdle()
      } catch {
        break
      }
      number += 1
    }
    try #require(number > 1)
    let expected = try await store.everything()
    _ = try await store.backup(to: "backup", on: storage)
    try await store.close()
    let after = SimulatedDisk(disk.image(.nothing))
    _ = try await Store.restore("backup", to: "restored", on: after)
    let restored = try after.openStore(at: "restored", configuration: configuration)
    #expect(try await restored.everything() == expected)
    try await restored.close()
  }

  /// After a crash the whole store exists, or no store, and then the restore can be repeated.
  @Test(arguments: BackupBench.modes, [nil, 9] as [UInt64?])
  func everyCrashLeavesAWholeStoreOrNoStore(
    mode: Store.Configuration.IOMode, through: UInt64?
  ) async throws {
    let configuration = Self.configuration(mode)
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (2, 1)
    experiment.killPeriod = 11
    let sequence = through.map { SequenceNumber(rawValue: $0) }
    let expected = Mutex<BackupBench.State>([:])
    let tally = try await experiment.run { disk, ledger in
      let store = try disk.openStore(configuration: configuration)
      try await Self.write(0, to: store)
      try await Self.write(1, to: store)
      _ = try await store.backup(to: "backup", on: disk)
      try await store.close()
      _ = try await Store.restore("backup", to: "first", through: sequence, on: disk)
      let first = try disk.openStore(at: "first", configuration: configuration)
      expected.withLock { [state = try await first.everything()] in $0 = state }
      try await first.close()
      ledger.begin()
      _ = try await Store.restore("backup", to: "restored", through: sequence, on: disk)
      ledger.becomeDurable()
    } check: { disk, steps in
      guard let backup = try disk.openDirectory("backup"),
        try backup.openFile("MANIFEST", .read) != nil
      else { return }
      let manifest = try disk.openDirectory("restored")?.openFile("MANIFEST", .read)
      if manifest == nil {
        guard steps.contains(0) else { throw Wrong(what: "the store is gone") }
        _ = try await Store.restore("backup", to: "restored", through: sequence, on: disk)
      }
      let store = try disk.openStore(at: "restored", configuration: configuration)
      let found = try await store.everything()
      guard try await store.verify().isSound else { throw Wrong(what: "not sound") }
      try await store.close()
      let wanted = expected.withLock { $0 }
      guard found == wanted || wanted.isEmpty else { throw Wrong(what: "another state") }
    }
    #expect(tally.crashPoints > 100)
  }
}
