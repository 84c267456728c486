import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A process dies while it holds the writer lease, or its disk fails; the other processes continue,
/// or learn of it.
@Suite(.timeLimit(.minutes(10))) struct SharedDeathTests {
  /// A unit that the dead process wrote completely may count; a unit that it wrote in part does
  /// not.
  @Test(arguments: SharedStoreTests.modes, [false, true])
  func survivorsContinueAfterAWriterDied(
    mode: Store.Configuration.IOMode, isTorn: Bool
  ) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.shared(mode)
    let victim = try Store(at: directory.path, configuration: configuration)
    try await victim.set([1], forKey: "acknowledged")
    let survivor = try Store(at: directory.path, configuration: configuration)
    var changes = survivor.changes().makeAsyncIterator()
    try await victim.dieWhileWriting([2], forKey: "in the air", isTorn: isTorn)
    #expect(try await survivor.value(forKey: "in the air") == nil)
    let sequence = try await survivor.set([3], forKey: "later", durability: .sync)
    #expect(sequence.rawValue == (isTorn ? 2 : 3))
    let expected: [Key: [UInt8]] =
      isTorn
      ? ["acknowledged": [1], "later": [3]]
      : ["acknowledged": [1], "in the air": [2], "later": [3]]
    #expect(try await survivor.contents() == expected)
    #expect(try await changes.next()?.key == (isTorn ? "later" : "in the air"))
    let third = try Store(at: directory.path, configuration: configuration)
    #expect(try await third.contents() == expected)
    try await third.set([4], forKey: "later")
    #expect(try await survivor.value(forKey: "later") == [4])
    try await third.close()
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    // The victim cannot be closed; its locks end with its process.
    withExtendedLifetime(victim) {}
  }

  /// The words of the page are inconsistent then, and no writer may come for a long time.
  @Test(arguments: SharedStoreTests.modes)
  func readersContinueAfterAWriterDiedWhilePublishing(mode: Store.Configuration.IOMode) async throws
  {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(mode)
    var readOnly = configuration
    readOnly.isReadOnly = true
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    try await victim.set([1], forKey: "a")
    let survivor = try Store(on: memory, at: "store", configuration: configuration)
    let reader = try Store(on: memory, at: "store", configuration: readOnly)
    #expect(try await reader.contents() == ["a": [1]])
    try await victim.set([2], forKey: "a")
    try await victim.dieWhilePublishing([3], forKey: "in the air")
    let expected: [Key: [UInt8]] = ["a": [2], "in the air": [3]]
    #expect(try await reader.contents() == expected)
    let second = try Store(on: memory, at: "store", configuration: readOnly)
    #expect(try await second.contents() == expected)
    let third = try Store(on: memory, at: "store", configuration: configuration)
    #expect(await third.recoveryReport.recordCount == 3)
    #expect(try await survivor.contents() == expected)
    #expect(await survivor.pageSnapshot() == nil, "reading takes over nothing")
    #expect(try await third.set([4], forKey: "a").rawValue == 4)
    #expect(await survivor.pageSnapshot() != nil)
    for store in [reader, second, survivor] {
      #expect(try await store.value(forKey: "a") == [4])
    }
    #expect(try await survivor.verify().isSound)
    for store in [reader, second, third, survivor] { try await store.close() }
    withExtendedLifetime(victim) {}
  }

  @Test(arguments: [false, true])
  func readerWaitsForAWriterStoppedDuringAPublication(isReadOnly: Bool) async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.shared()
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    try await writer.set([1], forKey: "a")
    configuration.isReadOnly = isReadOnly
    let reader = try Store(on: memory, at: "store", configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [1])
    try await writer.set([2], forKey: "a")
    #expect(try await writer.acquireWriterLease())
    await writer.beginPublishing()
    async let answer = reader.value(forKey: "a")
    async let second = reader.value(forKey: "a")
    // The reader waits for the lock on a thread.
    while !(await reader.isRereading) { await Task.yield() }
    await writer.releaseWriterLease()
    #expect(try await answer == [2])
    #expect(try await second == [2])
    for store in [reader, writer] { try await store.close() }
  }

  /// Damage is no end of the log, whatever the page says.
  @Test(arguments: SharedStoreTests.modes)
  func damageBelowAMarkIsReportedAfterADeathDuringAPublication(
    mode: Store.Configuration.IOMode
  ) async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(mode)
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    try await victim.set([1], forKey: "a", durability: .sync)
    let end = try #require(await victim.pageSnapshot()).tailEnd
    // The mark that promises the record is written with the next sync.
    for value in 2..<5 as Range<UInt8> {
      try await victim.set([value], forKey: "b", durability: .sync)
    }
    let idle = try Store(on: memory, at: "store", configuration: configuration)
    let directory = try #require(try memory.openDirectory("store"))
    let file = try #require(try directory.openFile("0000000001.segment", .readWrite))
    try [0xFF as UInt8].withUnsafeBytes { try file.write($0, at: UInt64(end - 6)) }
    try await victim.dieWhilePublishing([9], forKey: "c")
    let error = #expect(throws: StoreError.self) {
      _ = try Store(on: memory, at: "store", configuration: configuration)
    }
    #expect(error?.code == .corrupted)
    withExtendedLifetime((victim, idle)) {}
  }

  /// The dead writer may have published any number of units since the survivor last looked.
  @Test(arguments: SharedStoreTests.modes, [false, true])
  func survivorReadsThePublicationsOfADeadWriterFirst(
    mode: Store.Configuration.IOMode, diesWhilePublishing: Bool
  ) async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(mode)
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    try await victim.set([1], forKey: "a")
    let survivor = try Store(on: memory, at: "store", configuration: configuration)
    for value in 2..<5 as Range<UInt8> { try await victim.set([value], forKey: "b") }
    try await victim.removeValue(forKey: "a")
    if diesWhilePublishing {
      try await victim.dieWhilePublishing([9], forKey: "c")
    } else {
      try await victim.dieWhileWriting([9], forKey: "c", isTorn: false)
    }
    #expect(try await survivor.set([10], forKey: "d").rawValue == 7)
    #expect(try await survivor.contents() == ["b": [4], "c": [9], "d": [10]])
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    withExtendedLifetime(victim) {}
  }

  /// Regression: the process that took over ended with a trap when another program had cut the file
  /// of the dead writer.
  @Test func tailThatIsShorterThanWhatWasPublishedIsReported() async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(.positional)
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    try await victim.set([1], forKey: "a")
    let survivor = try Store(on: memory, at: "store", configuration: configuration)
    #expect(try await survivor.value(forKey: "a") == [1])
    let end = try #require(await victim.pageSnapshot()).tailEnd
    try await victim.dieWhileWriting([2], forKey: "b", isTorn: false)
    let directory = try #require(try memory.openDirectory("store"))
    let file = try #require(try directory.openFile("0000000001.segment", .readWrite))
    try file.truncate(to: UInt64(end - 8))
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) {
        try await survivor.set([3], forKey: "c")
      }
      #expect(error?.code == .corrupted && error?.file == "0000000001.segment")
    }
    withExtendedLifetime((victim, survivor)) {}
  }

  /// Regression: the manifest counted operations in the tail that the survivor had not read.
  @Test(arguments: SharedStoreTests.modes)
  func survivorGoesOnAfterADeathBesideACompaction(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.shared(mode)
    configuration.compaction = .manual
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    try await victim.set([1], forKey: "a")
    try await victim.sealForCompaction()
    try await victim.set([2], forKey: "a")
    let survivor = try Store(on: memory, at: "store", configuration: configuration)
    #expect(try await survivor.value(forKey: "a") == [2])
    for value in 3..<6 as Range<UInt8> { try await victim.set([value], forKey: "b") }
    try await victim.compact(segments: 0..<1)
    try await victim.dieWhilePublishing([9], forKey: "c")
    #expect(try await survivor.set([10], forKey: "d").rawValue == 7)
    #expect(try await survivor.contents() == ["a": [2], "b": [5], "c": [9], "d": [10]])
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    withExtendedLifetime(victim) {}
  }

  /// What a process finds that knows only the first value of "a": a dead process has compacted that
  /// value away, and was publishing "c" when it died.
  private struct Ground: Sendable {
    let storage: FaultStorage
    let victim: Store
    let survivor: Store
    let reader: Store.Reader
    /// The segment that the victim has written to last.
    let tail: String

    /// - Parameter compactsUnknownSegment: whether the survivor does not know the segment that the
    ///   victim compacts.
    init(
      _ mode: Store.Configuration.IOMode, compactsUnknownSegment: Bool = false
    ) async throws {
      let memory = MemoryStorage()
      storage = FaultStorage(memory)
      var configuration = Store.Configuration.shared(mode)
      configuration.compaction = .manual
      victim = try Store(on: memory, at: "store", configuration: configuration)
      try await victim.set([1], forKey: compactsUnknownSegment ? "k" : "a")
      try await victim.sealForCompaction()
      survivor = try Store(on: storage, at: "store", configuration: configuration)
      reader = try await survivor.reader()
      if compactsUnknownSegment {
        try await victim.set([1], forKey: "a")
        try await victim.set([1], forKey: "b")
        try await victim.sealForCompaction()
      }
      try await victim.set([2], forKey: "a")
      let snapshot = await victim.pageSnapshot()
      let published = try #require(snapshot)
      tail = SegmentNumber(rawValue: published.tailSegment).fileName
      try await victim.compact(segments: compactsUnknownSegment ? 1..<2 : 0..<1)
      try await victim.dieWhilePublishing([9], forKey: "c")
    }

    /// Makes the openings of the tail fail, from one on, counted from 1.
    func failOpenings(from number: Int) {
      let openings = Mutex(0)
      storage.setScript { [tail] event in
        guard event.operation == .openFile, event.file == tail else { return nil }
        return openings.withLock { count in
          count += 1
          return count >= number ? .fail(.ioError) : nil
        }
      }
    }
  }

  /// Regression: readers saw neither the old value nor the new one until the takeover had ended.
  @Test(arguments: SharedStoreTests.modes)
  func readersSeeNoHoleDuringATakeover(mode: Store.Configuration.IOMode) async throws {
    let ground = try await Ground(mode)
    let (survivor, reader, gate) = (ground.survivor, ground.reader, Gate())
    ground.storage.setScript { event in
      event.operation == .createFile && event.file == FileName.temporarySegment
        ? .hang(gate) : nil
    }
    let write = Task { try await survivor.set([10], forKey: "d") }
    await gate.arrival()
    let seen = try reader.value(forKey: "a")
    ground.storage.setScript(nil)
    gate.open()
    #expect(seen == [1] || seen == [2], "\(String(describing: seen))")
    #expect(try await write.value.rawValue == 4)
    #expect(try reader.value(forKey: "a") == [2])
    #expect(try await survivor.contents() == ["a": [2], "c": [9], "d": [10]])
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    withExtendedLifetime(ground) {}
  }

  /// Regression: after a failed takeover the survivor found no value.
  @Test(arguments: SharedStoreTests.modes, 1..<6)
  func noValueIsMissingAfterATakeoverThatFailed(
    mode: Store.Configuration.IOMode, number: Int
  ) async throws {
    let ground = try await Ground(mode)
    let survivor = ground.survivor
    ground.failOpenings(from: number)
    do throws(StoreError) { try await survivor.set([10], forKey: "d") } catch {
      #expect(error.code == .io)
    }
    var found: [UInt8]? = [2]
    do throws(StoreError) { found = try await survivor.value(forKey: "a") } catch {
      #expect(error.code == .io)
    }
    #expect(found == [2])
    ground.storage.setScript(nil)
    try await survivor.set([11], forKey: "d")
    #expect(try await survivor.contents() == ["a": [2], "c": [9], "d": [11]])
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    withExtendedLifetime(ground) {}
  }

  /// Regression: a reader saw a later value, and neither of two earlier ones. The manifest could be
  /// followed, because the survivor did not know the segment that was compacted; the tail could not
  /// be opened.
  @Test(arguments: SharedStoreTests.modes, 1..<4)
  func readersSeeNoHoleAfterATakeoverThatFailed(
    mode: Store.Configuration.IOMode, number: Int
  ) async throws {
    let ground = try await Ground(mode, compactsUnknownSegment: true)
    let (survivor, reader) = (ground.survivor, ground.reader)
    ground.failOpenings(from: number)
    do throws(StoreError) { try await survivor.set([10], forKey: "d") } catch {
      #expect(error.code == .io)
    }
    var later: [UInt8]?
    var seen: [UInt8]? = [2]
    do throws(StoreError) {
      later = try reader.value(forKey: "b")
      seen = try reader.value(forKey: "a")
    } catch {
      #expect(error.code == .io)
    }
    if later != nil { #expect(seen == [2]) }
    ground.storage.setScript(nil)
    try await survivor.set([11], forKey: "d")
    let contents: [Key: [UInt8]] = ["a": [2], "b": [1], "c": [9], "d": [11], "k": [1]]
    #expect(try await survivor.contents() == contents)
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    withExtendedLifetime(ground) {}
  }

  /// A failed operation used up the number, and other processes have seen it in the page.
  @Test func numberThatADeadWriterUsedUpIsNotGivenAgain() async throws {
    let memory = MemoryStorage()
    let victim = try Store(on: memory, at: "store", configuration: .shared())
    try await victim.set([1], forKey: "a")
    let survivor = try Store(on: memory, at: "store", configuration: .shared())
    try await victim.dieAfterUsingANumberUp()
    let third = try Store(on: memory, at: "store", configuration: .shared())
    #expect(try await third.set([2], forKey: "a").rawValue == 3)
    #expect(try await survivor.value(forKey: "a") == [2])
    for store in [survivor, third] { try await store.close() }
    withExtendedLifetime(victim) {}
  }

  /// The file of this process may be opened after the failure, and the kernel reports a failure
  /// once. The file is synced by a write, or by the sealing of the segment.
  @Test(arguments: SharedStoreTests.modes, [false, true])
  func noSyncIsAcknowledgedAfterASyncOfAnotherProcessFailed(
    mode: Store.Configuration.IOMode, isSeal: Bool
  ) async throws {
    let memory = MemoryStorage()
    let (faulty, slow) = (FaultStorage(memory), FaultStorage(memory))
    let configuration = Store.Configuration.shared(mode)
    let other = try Store(on: faulty, at: "store", configuration: configuration)
    try await other.set([1], forKey: "a", durability: .sync)
    try await other.set([2], forKey: "a")
    let store = try Store(on: slow, at: "store", configuration: configuration)
    try await store.set([3], forKey: "b")
    let gate = Gate()
    let operation: StorageEvent.Operation = isSeal ? .synchronizeFull : .synchronizeData
    slow.setScript { event in
      event.operation == operation && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    let syncing = Task { () async throws -> Void in
      guard isSeal else {
        try await store.set([4], forKey: "b", durability: .sync)
        return
      }
      try await store.sealForCompaction()
    }
    await gate.arrival()
    slow.setScript(nil)
    faulty.setScript { $0.operation == .synchronizeData ? .fail(.ioError) : nil }
    await #expect(throws: StoreError.self) { try await other.pipeline.waitUntilAllDurable() }
    gate.open()
    let error = await #expect(throws: StoreError.self) { try await syncing.value }
    #expect(error?.code == .poisoned)
    for store in [other, store] { try await store.close() }
  }

  @Test func failedSyncStopsTheWritersOfAllProcesses() async throws {
    let memory = MemoryStorage()
    let faulty = FaultStorage(memory)
    let first = try Store(on: faulty, at: "store", configuration: .shared())
    let second = try Store(on: memory, at: "store", configuration: .shared())
    try await first.set([1], forKey: "a", durability: .sync)
    try await second.set([2], forKey: "b")
    faulty.setScript { $0.operation == .synchronizeData ? .fail(.ioError) : nil }
    await #expect(throws: StoreError.self) {
      try await first.set([3], forKey: "c", durability: .sync)
    }
    let error = await #expect(throws: StoreError.self) { try await second.set([4], forKey: "d") }
    #expect(error?.code == .poisoned)
    #expect(try await second.value(forKey: "a") == [1])
    try await first.close()
    try await second.close()
    let again = try Store(on: memory, at: "store", configuration: .shared())
    try await again.set([5], forKey: "e")
    #expect(try await again.verify().isSound)
    try await again.close()
  }
}

extension Store {
  /// Appends like a process that is killed before it can publish, and releases its lock as the
  /// kernel does.
  fileprivate func dieWhileWriting(
    _ value: [UInt8], forKey key: Key, isTorn: Bool
  ) async throws(StoreError) {
    _ = try await acquireWriterLease()
    let before = engine!.sharedSnapshot().tailEnd
    guard case .done = try engine!.put(key, value) else {
      Issue.record("the append found no space")
      return
    }
    if isTorn {
      let file = engine!.activeFile()
      try storing { () throws(StorageError) in
        try [0xFF as UInt8].withBytes { (bytes) throws(StorageError) in
          try file?.write(bytes, at: UInt64(before + 20))
        }
      }
    }
    releaseLocksAsTheKernelDoes()
  }

  fileprivate func dieWhilePublishing(
    _ value: [UInt8], forKey key: Key
  ) async throws(StoreError) {
    _ = try await acquireWriterLease()
    guard case .done = try engine!.put(key, value) else {
      Issue.record("the append found no space")
      return
    }
    beginPublishing()
    engine!.log.link!.page.store(1, .tailEnd)
    releaseLocksAsTheKernelDoes()
  }

  fileprivate func dieAfterUsingANumberUp() async throws(StoreError) {
    _ = try await acquireWriterLease()
    engine!.log.lastSequence += 1
    engine!.log.link!.page.publish(engine!.sharedSnapshot())
    beginPublishing()
    releaseLocksAsTheKernelDoes()
  }

  fileprivate func beginPublishing() { engine!.log.link!.page.add(1, to: .version) }

  private func releaseLocksAsTheKernelDoes() { engine?.log.link?.freeWriter() }
}

extension EngineState {
  fileprivate func activeFile() -> (any StorageFile)? { log.active?.file }
}
