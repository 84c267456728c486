import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

extension Store {
  /// Number of bytes that are not in the checkpoint, without those that the opening has replayed.
  fileprivate var bytesSinceCheckpointAndReplay: UInt64 {
    bytesSinceCheckpoint &- (engine?.report.replayedBytes ?? 0)
  }
}

/// A store that releases its locks, and a store that is first shared when the disk is full.
@Suite(.timeLimit(.minutes(10))) struct SuspendingTests {
  /// Regression: a store that left before others kept the file open to which it had appended.
  @Test func suspendedStoreKeepsNoFileOpen() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .shared())
    let other = try Store(at: directory.path, configuration: .shared())
    try await store.set([1], forKey: "a")
    try await other.set([2], forKey: "b")
    try await store.suspend()
    try await other.close()
    #expect(try directory.descriptorCount() == 0)
    try await store.close()
  }

  /// Regression: a store kept one more mapping of the page after each resumption. Another `SHARED`
  /// file needs a mapping of its own.
  @Test func resumedStoreKeepsOneMappingOfEachPage() async throws {
    var configuration = Store.Configuration.shared()
    // No work in the background publishes anything.
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 1 << 40
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: configuration)
    try await store.set([1], forKey: "a")
    let others = store.observers.others
    for isReplaced in [false, false, true, true, false] {
      try await store.suspend()
      if isReplaced {
        let page = directory.store.appendingPathComponent(FileName.sharedPage)
        try FileManager.default.removeItem(at: page)
      }
      try await store.resume()
      let other = try Store(at: directory.path, configuration: configuration)
      #expect(try await store.value(forKey: "a") == [1])
      #expect(!others.hasNews)
      try await other.set([2], forKey: "b")
      #expect(others.hasNews)
      #expect(try await store.value(forKey: "b") == [2])
      #expect(!others.hasNews)
      try await other.close()
    }
    #expect(others.keptCount == 3)
    try await store.close()
  }

  /// The rate limit would make the compaction take years.
  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func suspendingEndsACompaction(sharing: Store.Configuration.Sharing) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.sharing = sharing
    configuration.compaction = .manual
    configuration.compaction.rateLimitBytesPerSecond = 1
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<500 {
      try await store.set([UInt8](repeating: 1, count: 40), forKey: Key("\(number % 50)"))
    }
    let compacting = Task { try await store.compact() }
    while await !store.isCompacting { await Task.yield() }
    try await store.suspend()
    let error = await #expect(throws: StoreError.self) { try await compacting.value }
    #expect(error?.code == .suspended)
    try await store.resume()
    #expect(try await store.count() == 50)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Returns a store with a hundred values, and a checkpoint that covers them.
  private func storeWithCheckpoint(
    _ sharing: Store.Configuration.Sharing
  ) async throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.sharing = sharing
    configuration.compaction = .manual
    configuration.checkpointFloorBytes = 4096
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<100 { try await store.set([UInt8](0..<99), forKey: Key("\(number)")) }
    try await store.writeCheckpointForTests()
    return store
  }

  /// Regression: the bytes since the last checkpoint were counted from those before the suspension,
  /// and the difference wrapped, so that a checkpoint was always due.
  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func noCheckpointIsDueAfterASuspensionWithoutWrites(
    sharing: Store.Configuration.Sharing
  ) async throws {
    let store = try await storeWithCheckpoint(sharing)
    try await store.suspend()
    try await store.resume()
    #expect(await !store.isCheckpointDue)
    try await store.close()
  }

  /// Regression: the appended bytes began at zero again, beside the bytes of compactions since the
  /// opening.
  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func figuresAreThoseSinceTheOpeningAfterASuspension(
    sharing: Store.Configuration.Sharing
  ) async throws {
    let store = try await storeWithCheckpoint(sharing)
    for _ in 0..<2 {
      let before = try await store.statistics()
      #expect(before.appendedBytes > 9_900)
      try await store.suspend()
      try await store.resume()
      let after = try await store.statistics()
      #expect(after.appendedBytes >= before.appendedBytes)
      #expect(after.checkpointBytes >= before.checkpointBytes)
      #expect(after.syncCount >= before.syncCount)
      #expect(await store.bytesSinceCheckpointAndReplay < 1000)
      try await store.set([UInt8](0..<99), forKey: "one more")
      #expect(try await store.statistics().appendedBytes >= after.appendedBytes + 99)
    }
    try await store.close()
  }

  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func resumingWaitsForASuspensionUnderWay(sharing: Store.Configuration.Sharing) async throws {
    let slow = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.sharing = sharing
    configuration.compaction = .manual
    let store = try Store(on: slow, at: "store", configuration: configuration)
    for number in 0..<100 { try await store.set([1], forKey: Key("\(number % 10)")) }
    let gate = Gate()
    slow.setScript { event in
      event.operation == .createFile && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    let compacting = Task { _ = try await store.compact() }
    await gate.arrival()
    let suspending = Task { try await store.suspend() }
    while !(await store.isSuspended) { await Task.yield() }
    let resuming = Task { try await store.resume() }
    for _ in 0..<1000 { await Task.yield() }
    slow.setScript(nil)
    gate.open()
    try await suspending.value
    try await resuming.value
    await #expect(throws: StoreError.self) { try await compacting.value }
    #expect(try await store.value(forKey: "3") == [1])
    #expect(try await store.count() == 10)
    try await store.close()
  }

  /// An app may go into the background while it opens its stores.
  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func suspendingWaitsForAResumptionUnderWay(sharing: Store.Configuration.Sharing) async throws {
    let memory = MemoryStorage()
    let (store, gate, slow) = try await suspended(memory, sharing)
    let resuming = Task { try await store.resume() }
    await gate.arrival()
    let suspending = Task { try await store.suspend() }
    for _ in 0..<1000 { await Task.yield() }
    slow.setScript(nil)
    gate.open()
    try await resuming.value
    try await suspending.value
    let error = await #expect(throws: StoreError.self) { try await store.value(forKey: "a") }
    #expect(error?.code == .suspended)
    let other = try Store(on: memory, at: "store", configuration: .testing())
    try await other.set([2], forKey: "a")
    try await other.close()
    try await store.resume()
    #expect(try await store.value(forKey: "a") == [2])
    try await store.close()
  }

  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared])
  func closingEndsAResumptionUnderWay(sharing: Store.Configuration.Sharing) async throws {
    let memory = MemoryStorage()
    let (store, gate, slow) = try await suspended(memory, sharing)
    let resuming = Task { try await store.resume() }
    await gate.arrival()
    let closing = Task { try await store.close() }
    while !(await store.isClosed) { await Task.yield() }
    slow.setScript(nil)
    gate.open()
    let error = await #expect(throws: StoreError.self) { try await resuming.value }
    #expect(error?.code == .closed)
    try await closing.value
    let other = try Store(on: memory, at: "store", configuration: .testing())
    #expect(await other.recoveryReport.wasClean)
    #expect(try await other.value(forKey: "a") == [1])
    try await other.close()
  }

  /// Returns a suspended store whose opening hangs.
  private func suspended(
    _ memory: MemoryStorage, _ sharing: Store.Configuration.Sharing
  ) async throws -> (Store, Gate, FaultStorage) {
    let slow = FaultStorage(memory)
    var configuration = Store.Configuration.testing()
    configuration.sharing = sharing
    let store = try Store(on: slow, at: "store", configuration: configuration)
    try await store.set([1], forKey: "a")
    try await store.suspend()
    let gate = Gate()
    slow.setScript { event in
      event.operation == .openFile && event.file == Manifest.fileName ? .hang(gate) : nil
    }
    return (store, gate, slow)
  }

  /// The files may be replaced after the suspension.
  @Test func openingThatASuspensionMakesUselessWatchesNoFiles() async throws {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    let app = try Store(on: slow, at: "store", configuration: .shared())
    let first = try Store(on: memory, at: "store", configuration: .shared())
    try await first.set([1], forKey: "a")
    try await first.close()
    let gate = Gate()
    slow.setScript { event in
      event.operation == .openFile && event.file == Manifest.fileName ? .hang(gate) : nil
    }
    let reading = Task(executorPreference: ThreadExecutor()) { try await app.value(forKey: "a") }
    await gate.arrival()
    let suspending = Task { try await app.suspend() }
    while !(await app.isSuspended) { await Task.yield() }
    slow.setScript(nil)
    gate.open()
    await #expect(throws: StoreError.self) { try await reading.value }
    try await suspending.value
    let directory = try #require(try memory.openDirectory("store"))
    for entry in try directory.entries() { try directory.remove(entry.name) }
    let second = try Store(on: memory, at: "store", configuration: .shared())
    try await second.set([2], forKey: "b")
    try await second.close()
    try await app.resume()
    #expect(try await app.value(forKey: "b") == [2])
    try await app.set([3], forKey: "c")
    try await app.close()
  }

  enum Replacement: CaseIterable { case backup, olderState, otherStore }

  /// Regression: a resumed store took other files for its own. Its iterators missed changes: the
  /// other history had used the same sequence numbers.
  @Test(arguments: [Store.Configuration.Sharing.exclusive, .shared], Replacement.allCases)
  func storeThatWasReplacedDuringASuspensionIsNotResumed(
    sharing: Store.Configuration.Sharing, replacement: Replacement
  ) async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.testing()
    configuration.sharing = sharing
    let store = try Store(on: memory, at: "store", configuration: configuration)
    for number in 0..<40 { try await store.set([1], forKey: Key("\(number)")) }
    _ = try await store.backup(to: "backup", on: memory)
    try await store.sync()
    let directory = try #require(try memory.openDirectory("store"))
    if replacement == .olderState { try copyFiles(from: directory, to: memory, "copy") }
    let queue = try await store.writeQueue()
    var changes = store.changes().makeAsyncIterator()
    for number in 0..<60 { try await store.set([2], forKey: Key("\(number)")) }
    for _ in 0..<60 { #expect(try await changes.next()?.value == [2]) }
    try await store.suspend()
    for entry in try directory.entries() where entry.name != "LOCK" {
      try directory.remove(entry.name)
    }
    switch replacement {
    case .backup: _ = try await Store.restore("backup", to: "store", on: memory)
    case .olderState:
      try copyFiles(from: try #require(try memory.openDirectory("copy")), to: memory, "store")
    case .otherStore:
      let other = try Store(on: memory, at: "store", configuration: configuration)
      for _ in 0..<200 { try await other.set([3], forKey: "x") }
      try await other.close()
    }
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) { try await store.resume() }
      #expect(error?.code == .storeReplaced && error?.file == Manifest.fileName)
    }
    let ended = await #expect(throws: StoreError.self) { try await changes.next() }
    #expect(ended?.code == .storeReplaced)
    let refusal = await #expect(throws: StoreError.self) { try await store.value(forKey: "1") }
    #expect(refusal?.code == .storeReplaced)
    let queued = await #expect(throws: StoreError.self) { try await queue.set([5], forKey: "q") }
    #expect(queued?.code == .storeReplaced)
    // The directory is free for the files that are there now.
    let next = try Store(on: memory, at: "store", configuration: configuration)
    let value: [UInt8]? = replacement == .otherStore ? nil : [1]
    #expect(try await next.value(forKey: "1") == value)
    try await next.set([4], forKey: "1")
    try await next.close()
    try await store.close()
  }

  /// An iterator that has read nothing yet waits for the end of the suspension.
  @Test func iteratorThatWaitsForAReplacedStoreEnds() async throws {
    let memory = MemoryStorage()
    let store = try Store(on: memory, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    try await store.suspend()
    let waiting = Task {
      var changes = store.contentsAndChanges().makeAsyncIterator()
      return try await changes.next()
    }
    while await store.watcherCount == 0 { await Task.yield() }
    let directory = try #require(try memory.openDirectory("store"))
    for entry in try directory.entries() { try directory.remove(entry.name) }
    let other = try Store(on: memory, at: "store", configuration: .testing())
    try await other.set([2], forKey: "a")
    try await other.close()
    await #expect(throws: StoreError.self) { try await store.resume() }
    let isOver = await store.watcherCount == 0
    #expect(isOver)
    if !isOver { waiting.cancel() }
    let error = await #expect(throws: StoreError.self) { try await waiting.value }
    #expect(error?.code == .storeReplaced)
    try await store.close()
  }

  @Test func fullDiskDoesNotPreventSharing() async throws {
    let disk = MemoryStorage(capacityBytes: 1 << 20)
    let alone = try Store(on: disk, at: "store", configuration: .testing())
    try await alone.set([1], forKey: "a")
    let directory = try #require(try disk.openDirectory("store"))
    let filler = try directory.createFile("filler")
    var length: UInt64 = 0
    func fill() throws {
      while try directory.freeBytes() > 0 {
        try filler.allocate(from: length, to: length + 1)
        length += 4096
      }
    }
    try fill()
    // As after a kill: the reserve still exists.
    withExtendedLifetime(alone) {}
    let copy = MemoryStorage(capacityBytes: 1 << 20)
    try copyFiles(from: directory, to: copy, "store")
    let shared = try Store(on: copy, at: "store", configuration: .shared())
    #expect(try await shared.value(forKey: "a") == [1])
    try await shared.removeValue(forKey: "a")
    try await shared.close()
    try await alone.close()
  }

  /// Copies the files without the lock: its holder was killed.
  private func copyFiles(
    from source: any StorageDirectory, to storage: MemoryStorage, _ path: FilePath
  ) throws {
    if try storage.openDirectory(path) == nil { try storage.createDirectory(path) }
    let target = try #require(try storage.openDirectory(path))
    for entry in try source.entries() {
      // The lock file of a suspended store is still there.
      if try target.openFile(entry.name, .read) != nil { continue }
      let file = try #require(try source.openFile(entry.name, .read))
      let copy = try target.createFile(entry.name)
      guard entry.lengthBytes > 0 else { continue }
      var bytes = [UInt8](repeating: 0, count: Int(entry.lengthBytes))
      let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
      try bytes[..<count].withUnsafeBytes { try copy.write($0, at: 0) }
    }
  }
}

extension Store {
  fileprivate func writeCheckpointForTests() async throws {
    try await writeCheckpoint(on: pipeline)
  }
}
