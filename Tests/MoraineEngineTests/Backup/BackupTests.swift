import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A backup is the store at one moment, and copies only what is new.
@Suite(.timeLimit(.minutes(5))) struct BackupTests {
  @Test(arguments: BackupBench.modes)
  func backupHoldsTheStateAtItsSequenceNumber(mode: Store.Configuration.IOMode) async throws {
    let bench = try BackupBench(mode)
    var states: [UInt64: BackupBench.State] = [:]
    let before = try await BackupBench.write(0..<300, to: bench.store, &states)
    let report = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    _ = try await BackupBench.write(300..<400, to: bench.store, &states, from: before)
    #expect(report.sequence.rawValue == states.keys.filter { states[$0] == before }.min())
    #expect(report.segmentCount > 5 && report.keptSegmentCount == 0)
    let backup = try bench.openBackup()
    #expect(try await backup.everything() == before)
    #expect(await backup.recoveryReport.wasClean)
    #expect(try await backup.verify().isSound)
    try await backup.close()
    try await bench.store.close()
  }

  /// A backup copies only what is new: it copies sealed segments once, and removes them when
  /// compaction has replaced them.
  @Test(arguments: BackupBench.modes)
  func backupCopiesOnlyNewSegments(mode: Store.Configuration.IOMode) async throws {
    let bench = try BackupBench(mode)
    var states: [UInt64: BackupBench.State] = [:]
    var state = try await BackupBench.write(0..<300, to: bench.store, &states)
    let first = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let again = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    #expect(again.keptSegmentCount == first.segmentCount && again.copiedBytes == 0)
    state = try await BackupBench.write(300..<330, to: bench.store, &states, from: state)
    let second = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    // All segments but the one that was appended to, and is longer now.
    #expect(second.keptSegmentCount == first.segmentCount - 1)
    #expect(second.sharedSegmentCount + second.keptSegmentCount < second.segmentCount)
    _ = try await bench.store.compact()
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let names = try bench.names(BackupBench.backup).filter { $0.hasSuffix(".segment") }
    let left = try bench.names("store").filter { $0.hasSuffix(".segment") }
    #expect(names == left)
    let backup = try bench.openBackup()
    #expect(try await backup.everything() == state)
    try await backup.close()
    try await bench.store.close()
  }

  /// The earlier backup exists until the later one is complete.
  @Test func interruptedBackupKeepsTheEarlierBackup() async throws {
    let bench = try BackupBench()
    var states: [UInt64: BackupBench.State] = [:]
    let before = try await BackupBench.write(0..<100, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let directory = try #require(try bench.storage.openDirectory(BackupBench.backup))
    let whole = try directory.entries().map(\.name)
    let after = try await BackupBench.write(100..<300, to: bench.store, &states, from: before)
    let old = try #require(try read("MANIFEST", directory))
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    #expect(try directory.entries().count > whole.count)
    // As after a kill before the new manifest was published: newer segments beside the older
    // manifest.
    try write(old, to: "MANIFEST", directory)
    let backup = try bench.openBackup()
    #expect(try await backup.everything() == before)
    try await backup.close()
    let restored = try await bench.restore()
    #expect(try await restored.store.everything() == before)
    try await restored.store.close()
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let new = try bench.openBackup()
    #expect(try await new.everything() == after)
    try await new.close()
    try await bench.store.close()
  }

  private func read(_ name: String, _ directory: any StorageDirectory) throws -> [UInt8]? {
    guard let file = try directory.openFile(name, .read) else { return nil }
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    return bytes
  }

  private func write(
    _ bytes: [UInt8], to name: String, _ directory: any StorageDirectory
  ) throws {
    try directory.remove(name)
    let file = try directory.createFile(name)
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
  }

  /// After a power failure the store continues without its last operations; the backup still holds
  /// them.
  @Test(arguments: BackupBench.modes)
  func operationsLostInAPowerFailureAreNotOverwrittenInTheBackup(
    mode: Store.Configuration.IOMode
  ) async throws {
    let disk = SimulatedDisk()
    let bench = try BackupBench(mode, on: disk, segmentSizeBytes: 1 << 20)
    var states: [UInt64: BackupBench.State] = [:]
    var state = try await BackupBench.write(0..<20, to: bench.store, &states)
    try await bench.store.sync()
    state = try await BackupBench.write(20..<50, to: bench.store, &states, from: state)
    let elsewhere = MemoryStorage()
    _ = try await bench.store.backup(to: BackupBench.backup, on: elsewhere)
    let after = SimulatedDisk(disk.image(.nothing))
    let store = try after.openStore(configuration: bench.configuration)
    #expect(try await store.everything() != state)
    _ = try await BackupBench.write(50..<120, to: store, &states)
    let error = await #expect(throws: StoreError.self) {
      _ = try await store.backup(to: BackupBench.backup, on: elsewhere)
    }
    #expect(
      error?.code == .historyDiverged && error?.message.contains("has lost in a crash") == true)
    _ = try await Store.restore(BackupBench.backup, to: BackupBench.restored, on: elsewhere)
    let restored = try Store(on: elsewhere, at: BackupBench.restored)
    #expect(try await restored.everything() == state)
    try await restored.close()
    _ = try await store.backup(to: "another", on: elsewhere)
    try await store.close()
  }

  /// The store may have lost the whole segment, or may have written as many bytes again in its
  /// place: the manifest says where the log was cut, also after compactions and further failures.
  @Test(arguments: BackupBench.modes, [20, 0])
  func operationsThatACutRemovedAreNotOverwrittenInTheBackup(
    mode: Store.Configuration.IOMode, durable: Int
  ) async throws {
    let disk = SimulatedDisk()
    let bench = try BackupBench(mode, on: disk, segmentSizeBytes: 1 << 20)
    var states: [UInt64: BackupBench.State] = [:]
    var state = BackupBench.State()
    try await bench.store.set([0], forKey: "first", durability: .sync)
    try await bench.store.compact()
    if durable > 0 {
      state = try await BackupBench.write(0..<durable, to: bench.store, &states)
      try await bench.store.sync()
    }
    state = try await BackupBench.write(20..<50, to: bench.store, &states, from: state)
    let elsewhere = MemoryStorage()
    _ = try await bench.store.backup(to: BackupBench.backup, on: elsewhere)
    let last = try await bench.store.statistics().lastSequence.rawValue
    var found: ChangeCursor?
    for try await change in bench.store.changes(after: SequenceNumber(rawValue: last - 1)) {
      found = change.cursor
      break
    }
    let cursor = try #require(found)
    let kept = try await bench.store.everything()
    var after = SimulatedDisk(disk.image(.nothing))
    for round in 0..<3 {
      let store = try after.openStore(configuration: bench.configuration)
      #expect(try await store.everything() != kept)
      _ = try await BackupBench.write(50..<300, to: store, &states)
      try await store.sync()
      try await store.compact()
      #expect(try await store.statistics().lastSequence > cursor.sequence, "round \(round)")
      let error = await #expect(throws: StoreError.self) {
        _ = try await store.backup(to: BackupBench.backup, on: elsewhere)
      }
      #expect(error?.code == .historyDiverged, "round \(round)")
      let lost = await #expect(throws: StoreError.self) {
        for try await _ in store.changes(since: cursor) { break }
      }
      #expect(lost?.code == .cursorDiverged, "round \(round)")
      // A backup that was begun after the failure continues.
      _ = try await store.backup(to: "another", on: elsewhere)
      after = SimulatedDisk(after.image(.nothing))
    }
    let restored = try await Store.restore(
      BackupBench.backup, to: BackupBench.restored, on: elsewhere)
    #expect(restored.count == kept.count)
  }

  /// A backup on the same disk does not write sealed segments a second time.
  @Test func backupSharesSealedSegmentsOnTheSameDisk() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(segmentSizeBytes: 2000))
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<300, to: store, &states)
    let backup = FilePath(directory.url.path).appending("backup")
    let report = try await store.backup(to: backup)
    // Which segments were sealed at that moment depends on the committing thread.
    #expect(report.sharedSegmentCount > 0)
    #expect(report.copiedBytes < report.totalBytes)
    #expect(try directory.names().contains("MANIFEST"))
    let restored = FilePath(directory.url.path).appending("restored")
    let restoring = try await Store.restore(backup, to: restored)
    #expect(restoring.count == state.count && restoring.totalBytes == report.totalBytes)
    let copy = try Store(at: restored)
    #expect(try await copy.everything() == state)
    try await copy.close()
    try await store.close()
  }

  /// Regression: the files had their names already, as after a kill before the manifest was
  /// written. A rename between two names of one file does nothing, so the last segment kept a
  /// second name in the backup.
  @Test func repeatedBackupLeavesNoSecondName() async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.compaction = .manual
    let store = try Store(at: directory.path, configuration: configuration)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<300, to: store, &states)
    // Also seals the last segment, so that it can be linked.
    try await store.compact()
    let backup = FilePath(directory.url.path).appending("backup")
    let whole = try await store.backup(to: backup)
    let files = directory.url.appendingPathComponent("backup")
    try FileManager.default.removeItem(at: files.appendingPathComponent("MANIFEST"))
    let report = try await store.backup(to: backup)
    #expect(report.sharedSegmentCount == report.segmentCount)
    #expect(report.segmentCount == whole.segmentCount)
    let names = try FileManager.default.contentsOfDirectory(atPath: files.path)
    #expect(!names.contains("SEGMENT.tmp"), "\(names)")
    let restored = FilePath(directory.url.path).appending("restored")
    #expect(try await Store.restore(backup, to: restored).count == state.count)
    try await store.close()
  }

  /// One call saves a store that is only in memory.
  @Test func aStoreInMemoryIsBackedUpToTheDisk() async throws {
    let directory = try TestDirectory()
    let store = Store.inMemory()
    try await store.set([1, 2, 3], forKey: "a")
    let named = try store.keyspace(named: "users")
    try await named.set([4], forKey: "b")
    _ = try await store.backup(to: directory.path)
    let restored = FilePath(directory.url.path).appending("restored")
    try await Store.restore(directory.path, to: restored)
    let copy = try Store(at: restored)
    #expect(try await copy.value(forKey: "a") == [1, 2, 3])
    #expect(try await copy.keyspace(named: "users").value(forKey: "b") == [4])
    try await copy.close()
    try await store.close()
  }
}
