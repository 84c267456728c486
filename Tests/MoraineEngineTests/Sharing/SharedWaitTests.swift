import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Reading what other processes have written may take long. While it does, the store answers other
/// calls, and the read blocks no thread of Swift's pool.
@Suite(.timeLimit(.minutes(1))) struct SharedWaitTests {
  @Test(arguments: SharedStoreTests.modes)
  func storeAnswersOtherCallsWhileAReadOpensTheStore(mode: Store.Configuration.IOMode) async throws
  {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    let configuration = Store.Configuration.shared(mode)
    let reader = try Store(on: slow, at: "store", configuration: configuration)
    #expect(try await reader.value(forKey: "a") == nil)
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    try await writer.set([1], forKey: "a")
    let gate = Gate()
    slow.setScript { event in
      event.operation == .openFile && event.file == Manifest.fileName ? .hang(gate) : nil
    }
    async let answer = ThreadExecutor.run { try await reader.value(forKey: "a") }
    await gate.arrival()
    #expect(await reader.recoveryReport.replayedBytes == 0, "the store is not open yet")
    slow.setScript(nil)
    gate.open()
    #expect(try await answer == [1])
    for store in [writer, reader] { try await store.close() }
  }

  /// Removed segments make a reader read the whole store again.
  @Test(arguments: SharedStoreTests.modes)
  func storeAnswersOtherCallsWhileAReadReloadsTheStore(
    mode: Store.Configuration.IOMode
  ) async throws {
    let gate = Gate()
    let (reader, writer) = try await Self.outdated(gate, mode)
    async let answer = ThreadExecutor.run { try await reader.value(forKey: "3") }
    await gate.arrival()
    #expect(await reader.compactionFailure == nil, "the store answers")
    // A second reader waits for the first.
    async let other = reader.contains("3")
    gate.open()
    #expect(try await answer == [1])
    #expect(try await other)
    #expect(try await reader.verify().isSound)
    for store in [writer, reader] { try await store.close() }
  }

  /// A write of the same process comes while a read loads the store again: the state that the read
  /// has loaded is older then.
  @Test(arguments: SharedStoreTests.modes)
  func writerKeepsItsStateWhileAReaderReadsTheStoreAgain(
    mode: Store.Configuration.IOMode
  ) async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate, mode)
    async let answer = ThreadExecutor.run { try await store.value(forKey: "3") }
    await gate.arrival()
    #expect(try await store.acquireWriterLease())
    try await store.set([2], forKey: "mine")
    gate.open()
    #expect(try await answer == [1])
    #expect(try await store.value(forKey: "mine") == [2], "while the lease is held")
    try await store.set([3], forKey: "mine")
    await store.releaseWriterLease()
    #expect(try await other.value(forKey: "mine") == [3])
    #expect(try await store.verify().isSound)
    for store in [other, store] { try await store.close() }
  }

  /// Returns a store whose segments another process has compacted away, and whose first reload
  /// hangs.
  private static func outdated(
    _ gate: Gate, _ mode: Store.Configuration.IOMode = .mapped
  ) async throws -> (store: Store, other: Store) {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    var configuration = Store.Configuration.shared(mode, segmentSizeBytes: 4000)
    configuration.compaction = .manual
    let other = try Store(on: FaultStorage(memory), at: "store", configuration: configuration)
    for number in 0..<100 { try await other.set([0], forKey: Key("\(number % 3)")) }
    let store = try Store(on: slow, at: "store", configuration: configuration)
    for number in 0..<300 { try await other.set([1], forKey: Key("\(number % 4)")) }
    try await other.compact()
    try await other.set([1], forKey: "tail")
    let openings = Mutex(0)
    slow.setScript { event in
      guard event.operation == .openFile, event.file == Manifest.fileName else { return nil }
      return openings.withLock { count in
        count += 1
        return count == 2 ? .hang(gate) : nil
      }
    }
    return (store, other)
  }

  /// Regression: a writer that had to read the store again opened the file after the failure, and
  /// acknowledged writes after bytes that were lost.
  @Test func writerNoticesThatASyncOfAnotherProcessFailsDuringAReload() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    let faulty = try #require(other.opener.storage as? FaultStorage)
    let write = Task { try await store.set([2], forKey: "mine") }
    await gate.arrival()
    faulty.setScript { $0.operation == .synchronizeData ? .fail(.ioError) : nil }
    await #expect(throws: StoreError.self) { try await other.pipeline.waitUntilAllDurable() }
    gate.open()
    let error = await #expect(throws: StoreError.self) { try await write.value }
    #expect(error?.code == .poisoned)
    for store in [other, store] { try await store.close() }
  }

  /// Two compactions that wait for the same reload would otherwise both begin when it ends.
  @Test func compactionsThatWaitForAReloadRunInTurn() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    async let first = store.compact()
    await gate.arrival()
    async let second = store.compact()
    for _ in 0..<1000 { await Task.yield() }
    gate.open()
    _ = try await (first, second)
    #expect(try await store.value(forKey: "3") == [1])
    #expect(try await store.verify().isSound)
    for store in [other, store] { try await store.close() }
  }

  /// The feed has not begun to wait, so that closing has no waiting task to wake.
  @Test func feedEndsWhenTheStoreIsClosedDuringAReload() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    let feed = Task(executorPreference: ThreadExecutor()) { for try await _ in store.changes() {} }
    await gate.arrival()
    let closing = Task { try await store.close() }
    while !(await store.isClosed) { await Task.yield() }
    gate.open()
    try await feed.value
    try await closing.value
    #expect(await store.hasNoState, "the state that was read for the feed is not installed")
    try await other.close()
  }

  @Test func feedContinuesWhenTheStoreIsSuspendedDuringAReload() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    let feed = Task(executorPreference: ThreadExecutor()) { () async throws -> [Store.Change] in
      var changes: [Store.Change] = []
      for try await change in store.changes() {
        changes.append(change)
        if changes.count == 2 { break }
      }
      return changes
    }
    await gate.arrival()
    let suspending = Task { try await store.suspend() }
    while !(await store.isSuspended) { await Task.yield() }
    gate.open()
    try await suspending.value
    try await store.resume()
    while await store.watcherCount == 0 { await Task.yield() }
    try await other.set([7], forKey: "x")
    try await store.set([8], forKey: "y")
    #expect(try await feed.value.map(\.key) == ["x", "y"])
    for store in [other, store] { try await store.close() }
  }

  @Test func storeThatCouldNotBeReadAgainNoticesThatLockFilesAreDeleted() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    let slow = try #require(store.opener.storage as? FaultStorage)
    let answer = Task(executorPreference: ThreadExecutor()) { try await store.value(forKey: "3") }
    await gate.arrival()
    slow.setScript { event in
      event.operation == .openFile && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    gate.open()
    let failure = await #expect(throws: StoreError.self) { try await answer.value }
    #expect(failure?.code == .io)
    slow.setScript(nil)
    let directory = try #require(try slow.openDirectory("store"))
    try directory.remove(FileName.writerLock)
    let error = await #expect(throws: StoreError.self) { try await store.checkPresence() }
    #expect(error?.code == .storeReplaced)
    withExtendedLifetime(other) {}
  }

  /// The page may begin a new epoch before the reloaded state is installed.
  @Test func reloadedStateBelongsToThePageOfItsReload() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    let before = await store.followedNonce
    async let answer = ThreadExecutor.run { try await store.value(forKey: "3") }
    await gate.arrival()
    await other.makePageAgain(nonce: before &+ 2)
    gate.open()
    #expect(try await answer == [1])
    #expect(await store.followedNonce == before)
    #expect(try await store.value(forKey: "3") == [1])
    #expect(await store.followedNonce == before &+ 2)
    for store in [other, store] { try await store.close() }
  }

  /// A reader that opened the store before any process shared it does not hold the writers' lock
  /// file.
  @Test func readerWithoutALinkDoesNotAnswerOldValuesBesideAWriter() async throws {
    let memory = MemoryStorage()
    let alone = try Store(on: memory, at: "store", configuration: .testing())
    try await alone.set([1], forKey: "a")
    try await alone.close()
    var readOnly = Store.Configuration.shared()
    readOnly.isReadOnly = true
    let reader = try Store(on: memory, at: "store", configuration: readOnly)
    #expect(try await reader.value(forKey: "a") == [1])
    let writer = try Store(on: memory, at: "store", configuration: .shared())
    try await writer.set([2], forKey: "a")
    #expect(try await writer.acquireWriterLease())
    let error = await #expect(throws: StoreError.self) { try await reader.value(forKey: "a") }
    #expect(error?.code == .locked)
    await writer.releaseWriterLease()
    #expect(try await reader.value(forKey: "a") == [2])
    for store in [reader, writer] { try await store.close() }
  }

  @Test func waitForAWriterCountsObservedTimePerWriter() throws {
    let storage = MemoryStorage()
    try storage.createDirectory("store")
    let link = try SharedLink(try #require(try storage.openDirectory("store")))
    let page = link.page
    page.make(SharedPage.Publication(), nextSegment: 1, nonce: 1)
    page.store(42, .leaseHolder)
    var now: UInt64 = 0
    var wait = SharedLink.WriterWait(1_000_000_000, now: now)
    // A machine that was asleep for an hour has looked once.
    now += 3_600_000_000_000
    _ = try wait.nextPause(page, now: now)
    for _ in 0..<9 {
      now += 3_600_000_000_000
      _ = try wait.nextPause(page, now: now)
    }
    page.publish(SharedPage.Publication(lastSequence: 1))
    for _ in 0..<10 {
      now += 100_000_000
      _ = try wait.nextPause(page, now: now)
    }
    now += 100_000_000
    let error = #expect(throws: StoreError.self) { try wait.nextPause(page, now: now) }
    #expect(error?.code == .locked)
    #expect(error?.message.contains("(42) has been writing for 1.0 seconds") == true)
  }

  /// The record brings the name of the keyspace.
  @Test func deleteInAKeyspaceThatAnotherProcessHasMadeFindsTheKey() async throws {
    let memory = MemoryStorage()
    let store = try Store(on: memory, at: "store", configuration: .shared())
    let other = try Store(on: memory, at: "store", configuration: .shared())
    try await store.set([0], forKey: "a")
    #expect(try await other.value(forKey: "a") == [0])
    try await store.keyspace(named: "k").set([1], forKey: "x")
    #expect(try await other.keyspace(named: "k").removeValue(forKey: "x") != nil)
    #expect(try await store.keyspace(named: "k").value(forKey: "x") == nil)
    for store in [other, store] { try await store.close() }
  }
}

extension Store {
  fileprivate var hasNoState: Bool { engine == nil }

  fileprivate func makePageAgain(nonce: UInt64) {
    let page = engine!.log.link!.page
    page.make(engine!.sharedSnapshot(), nextSegment: page.load(.nextSegment), nonce: nonce)
  }
}
