import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A backup takes a segment with the same number for the same segment.
@Suite(.timeLimit(.minutes(10))) struct BackupIdentityTests {
  /// Regression: a cut listed a segment that compaction had written, before a manifest listed it.
  /// After a power failure, another segment could get its number.
  @Test(arguments: BackupBench.modes)
  func cutWaitsForTheManifestThatIsBeingPublished(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try BackupBench(mode, on: storage).store
    for number in 0..<100 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    try await store.waitUntilIdle()
    let gate = storage.failPublications()
    let compaction = Task { try await store.compact(segments: 0..<1) }
    await gate.arrival()
    let hasEnded = Mutex(false)
    let cutting = Task {
      let cut = try await store.logCut()
      hasEnded.withLock { $0 = true }
      return cut
    }
    // Ends when the cut waits, or was made.
    while await !store.hasWaitersForTheManifest, !hasEnded.withLock({ $0 }) { await Task.yield() }
    gate.open()
    let cut = try #require(try await cutting.value)
    #expect(cut.segments.allSatisfy { !$0.isCompacted }, "no manifest lists the output")
    await #expect(throws: StoreError.self) { try await compaction.value }
    storage.setScript(nil)
    try await store.close()
  }

  /// Regression: a backup listed a number that a failed append had used up in memory alone. After a
  /// kill, the next backup was refused as one of an earlier state.
  @Test func numberOfAFailedAppendDoesNotRefuseTheNextBackup() async throws {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    let bench = try BackupBench(.positional, on: storage)
    let last = try await bench.store.set([1], forKey: "a")
    storage.setScript { event in event.operation == .write ? .fail(.noSpace) : nil }
    while try await bench.store.statistics().lastSequence == last {
      await #expect(throws: StoreError.self) { try await bench.store.set([2], forKey: "b") }
    }
    storage.setScript(nil)
    let report = try await bench.store.backup(to: BackupBench.backup, on: memory)
    #expect(report.sequence == last, "no operation has a later number")
    try memory.copyDirectory("store", to: "killed")
    let again = try Store(on: memory, at: "killed", configuration: bench.configuration)
    _ = try await again.backup(to: BackupBench.backup, on: memory)
    try await again.set([3], forKey: "c")
    _ = try await again.backup(to: BackupBench.backup, on: memory)
    let backup = try bench.openBackup()
    #expect(try await backup.everything() == ["a": [1], "c": [3]])
    try await backup.close()
    try await again.close()
    try await bench.store.close()
  }

  /// A store in another process lists a number that a failed append of the first one has used up.
  @Test(arguments: [false, true])
  func numberOfAFailedAppendOfAnotherProcessIsNotInABackup(isReadOnly: Bool) async throws {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    let configuration = Store.Configuration.shared(.positional)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let last = try await store.set([1], forKey: "a")
    storage.setScript { event in event.operation == .write ? .fail(.noSpace) : nil }
    while try await store.statistics().lastSequence == last {
      await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    }
    storage.setScript(nil)
    var others = configuration
    others.isReadOnly = isReadOnly
    let other = try Store(on: memory, at: "store", configuration: others)
    _ = try await other.backup(to: BackupBench.backup, on: memory)
    try memory.copyDirectory("store", to: "killed")
    let again = try Store(on: memory, at: "killed", configuration: configuration)
    _ = try await again.backup(to: BackupBench.backup, on: memory)
    try await again.close()
    try await other.close()
    try await store.close()
  }

  /// Regression: the copy took a file that another store had put in the place of the segment, or
  /// reported the missing file of a store that had left its directory as damage.
  @Test(arguments: [false, true])
  func backupEndsWhenTheStoreLeavesItsDirectory(closes: Bool) async throws {
    let memory = MemoryStorage()
    let bench = try BackupBench(.positional, on: memory)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<200, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: memory)
    let next = try await BackupBench.write(200..<400, to: bench.store, &states, from: state)
    let slow = FaultStorage(memory)
    let gate = Gate()
    let files = Mutex(0)
    slow.setScript { event in
      guard event.operation == .createFile, event.file == FileName.temporarySegment else {
        return nil
      }
      let count = files.withLock { files in
        files += 1
        return files
      }
      return count == 2 ? .hang(gate) : nil
    }
    let store = bench.store
    let backup = Task { try await store.backup(to: BackupBench.backup, on: slow) }
    await gate.arrival()
    try await store.compact()
    if closes { try await store.close() } else { try await store.suspend() }
    let second = try Store(on: memory, at: "store", configuration: bench.configuration)
    #expect(try await second.everything() == next, "the opening has removed the replaced files")
    try await second.close()
    gate.open()
    let error = await #expect(throws: StoreError.self) { try await backup.value }
    #expect(error?.code == (closes ? .closed : .suspended))
    let earlier = try bench.openBackup()
    #expect(try await earlier.everything() == state, "the earlier backup is whole")
    try await earlier.close()
    guard !closes else { return }
    try await store.resume()
    _ = try await store.backup(to: BackupBench.backup, on: memory)
    let later = try bench.openBackup()
    #expect(try await later.everything() == next)
    try await later.close()
    try await store.close()
  }

  /// While the store is suspended, another store's files take the names of its segments.
  @Test(arguments: BackupBench.modes)
  func backupTakesNoFileOfAnotherStore(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    let bench = try BackupBench(mode, on: slow)
    var states: [UInt64: BackupBench.State] = [:]
    let before = try await BackupBench.write(0..<200, to: bench.store, &states)
    _ = try await bench.store.backup(to: BackupBench.backup, on: slow)
    let state = try await BackupBench.write(200..<400, to: bench.store, &states, from: before)
    try await bench.store.sync()
    let entries = try #require(try await bench.store.logCut()?.segments.map(\.entry))
    let gate = Gate()
    let files = Mutex(0)
    slow.setScript { event in
      guard event.operation == .remove, event.file == FileName.temporarySegment else { return nil }
      let count = files.withLock { files in
        files += 1
        return files
      }
      // The first segment that is copied is the one that was the last of the earlier backup.
      return count == 1 ? .hang(gate) : nil
    }
    let store = bench.store
    let backup = Task { try await store.backup(to: BackupBench.backup, on: slow) }
    await gate.arrival()
    try await store.suspend()
    let directory = try #require(try memory.openDirectory("store"))
    for entry in entries {
      let name = entry.number.fileName
      try directory.remove(name)
      let bytes = [UInt8](repeating: 0xEE, count: Int(entry.lengthBytes))
      try bytes.withUnsafeBytes { try directory.createFile(name).write($0, at: 0) }
    }
    gate.open()
    guard mode == .mapped else {
      let error = await #expect(throws: StoreError.self) { try await backup.value }
      #expect(error?.code == .suspended)
      let earlier = try bench.openBackup()
      #expect(try await earlier.everything() == before, "the earlier backup is whole")
      try await earlier.close()
      return
    }
    // The bytes in memory are the store's.
    _ = try await backup.value
    let copy = try bench.openBackup()
    #expect(try await copy.everything() == state)
    try await copy.close()
  }

  /// The store has lost a segment of the earlier backup, and another segment got its number.
  @Test func anotherSegmentWithTheSameNumberIsNotKept() async throws {
    let directory = try TestDirectory()
    let target = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(segmentSizeBytes: 2000))
    for number in 0..<100 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    _ = try await store.backup(to: target.path)
    let segments = try target.segments()
    // The store's own file may be a link to the same file: only a copy may be changed.
    let bytes = try Data(contentsOf: segments[0])
    try FileManager.default.removeItem(at: segments[0])
    try bytes.write(to: segments[0])
    _ = try await store.backup(to: target.path)
    let forgery = Forgery(directory: target)
    try forgery.changeHeader(of: segments[0]) { $0.salt ^= 1 }
    let before = try forgery.contents()
    let error = await #expect(throws: StoreError.self) {
      _ = try await store.backup(to: target.path)
    }
    #expect(error?.code == .historyDiverged)
    let after = try forgery.contents()
    #expect(after.keys == before.keys)
    for (name, bytes) in before where name != "LOCK" { #expect(after[name] == bytes, "\(name)") }
    try await store.close()
  }
}

extension Store {
  var hasWaitersForTheManifest: Bool { writing.manifestGate.waitingCount > 0 }
  func takeManifestGate() async { await writing.manifestGate.acquire() }
  func releaseManifestGate() { writing.manifestGate.release() }
}
