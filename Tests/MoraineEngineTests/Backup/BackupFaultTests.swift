import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Every call of a backup and of a restore fails once: the operation throws an error, and
/// everything is as before the attempt.
@Suite(.timeLimit(.minutes(10))) struct BackupFaultTests {
  @Test(arguments: BackupBench.modes, [Errno.ioError, .noSpace])
  func aFailedBackupHarmsNothing(mode: Store.Configuration.IOMode, errno: Errno) async throws {
    let memory = MemoryStorage()
    let bench = try BackupBench(mode, on: memory)
    var states: [UInt64: BackupBench.State] = [:]
    var state = try await BackupBench.write(0..<100, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: memory)
    let before = state
    state = try await BackupBench.write(100..<160, to: bench.store, &states, from: state)
    var refusalCount = 0
    for index in 0... {
      let faulty = FaultStorage(memory)
      faulty.setScript { $0.index == index ? .fail(errno) : nil }
      let outcome = await outcome { _ = try await bench.store.backup(to: "backup", on: faulty) }
      guard faulty.trace.count > index else { break }
      if let code = outcome { #expect([.io, .noSpace].contains(code), "call \(index): \(code)") }
      refusalCount += outcome == nil ? 0 : 1
      let backup = try bench.openBackup()
      let found = try await backup.everything()
      #expect(found == state || (outcome != nil && found == before), "call \(index)")
      try await backup.close()
    }
    #expect(refusalCount > 10)
    _ = try await bench.store.backup(to: BackupBench.backup, on: memory)
    let backup = try bench.openBackup()
    #expect(try await backup.everything() == state)
    try await backup.close()
    try await bench.store.close()
  }

  @Test(arguments: BackupBench.modes, [Errno.ioError, .noSpace])
  func aFailedRestoreMakesNoStore(mode: Store.Configuration.IOMode, errno: Errno) async throws {
    let memory = MemoryStorage()
    let bench = try BackupBench(mode, on: memory)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<100, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: memory)
    var refusalCount = 0
    for index in 0... {
      let faulty = FaultStorage(memory)
      faulty.setScript { $0.index == index ? .fail(errno) : nil }
      let path = FilePath("restored \(index)")
      let outcome = await outcome {
        _ = try await Store.restore(BackupBench.backup, to: path, on: faulty)
      }
      guard faulty.trace.count > index else { break }
      if let code = outcome {
        #expect([.io, .noSpace].contains(code), "call \(index): \(code)")
        refusalCount += 1
        // The attempt leaves nothing that is in the way, also on a full disk.
        let names = try bench.names(path)
        if errno == .noSpace, !names.contains("MANIFEST") {
          #expect(names == [] || names == ["LOCK"], "call \(index)")
        }
        // After the last rename the store may exist as a whole.
        if try !bench.names(path).contains("MANIFEST") {
          _ = try await Store.restore(BackupBench.backup, to: path, on: memory)
        }
      }
      let store = try Store(on: memory, at: path, configuration: bench.configuration)
      #expect(try await store.everything() == state, "call \(index)")
      try await store.close()
    }
    #expect(refusalCount > 10)
    try await bench.store.close()
  }

  /// Segments are removed while their mappings are still read. Found by backups beside a writer and
  /// compactions.
  @Test func segmentThatIsRemovedDuringABackupIsCopied() async throws {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    let bench = try BackupBench(on: storage)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<100, to: bench.store, &states)
    let directory = try #require(try memory.openDirectory("store"))
    storage.setScript { event in
      if event.operation == .share {
        do { try directory.remove(event.file) } catch { Issue.record("\(error)") }
      }
      return nil
    }
    let report = try await bench.store.backup(to: BackupBench.backup, on: storage)
    #expect(report.sharedSegmentCount == 0 && report.copiedBytes == report.totalBytes)
    let backup = try bench.openBackup()
    #expect(try await backup.everything() == state)
    try await backup.close()
    try await bench.store.close()
  }

  /// The same holds when the backup begins while a compaction has put its output into the log, and
  /// has not published that yet. An earlier snapshot does not contain the output.
  @Test(arguments: BackupBench.modes, [1, 2])
  func aBackupWithinACompactionIsWhole(mode: Store.Configuration.IOMode, renaming: Int) async throws
  {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    let bench = try BackupBench(mode, on: storage)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<300, to: bench.store, &states)
    let gate = Gate()
    let left = Mutex(renaming)
    storage.setScript { event in
      guard event.operation == .rename, event.file == "MANIFEST.tmp" else { return nil }
      return left.withLock { left in
        left -= 1
        return left == 0 ? .hang(gate) : nil
      }
    }
    let kept = try await bench.store.snapshot()
    let store = bench.store
    let compaction = Task { try await store.compact() }
    await gate.arrival()
    // Waits for the manifest.
    let backup = Task { try await store.backup(to: BackupBench.backup, on: memory) }
    gate.open()
    _ = try await backup.value
    _ = try await compaction.value
    #expect(kept.count == state.count)
    let (restored, _) = try await bench.restore()
    #expect(try await restored.everything() == state)
    try await restored.close()
    try await store.close()
  }

  private func outcome(_ body: () async throws -> Void) async -> StoreError.Code? {
    do {
      try await body()
      return nil
    } catch { return (error as? StoreError)?.code ?? .decodingFailed }
  }
}
