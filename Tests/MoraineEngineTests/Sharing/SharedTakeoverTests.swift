import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// One process leaves a segment half sealed, and another process seals it.
@Suite(.timeLimit(.minutes(10))) struct SharedTakeoverTests {
  /// The footer counts, whichever process lists the segment: a manifest that lists the segment as
  /// cut cannot be opened.
  @Test(arguments: SharedStoreTests.modes)
  func aFooterWithoutASuccessorIsNoCut(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    let faulty = FaultStorage(memory)
    var configuration = Store.Configuration.shared(mode, segmentSizeBytes: 600)
    configuration.compaction = .manual
    let first = try Store(on: faulty, at: "store", configuration: configuration)
    let second = try Store(on: memory, at: "store", configuration: configuration)
    try await first.set([1], forKey: "a", durability: .sync)
    faulty.setScript { event in
      event.operation == .createFile && event.file.hasSuffix(".segment") ? .fail(.noSpace) : nil
    }
    var count = 0
    await #expect(throws: StoreError.self) {
      while count < 100 {
        try await first.set([2], forKey: "b \(count)", durability: .sync)
        count += 1
      }
    }
    try await second.set([3], forKey: "c", durability: .sync)
    faulty.setScript(nil)
    try await first.close()
    try await second.set([4], forKey: "d", durability: .sync)
    try await second.close()
    let again = try Store(on: memory, at: "store", configuration: configuration)
    #expect(try await again.count() == count + 3)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// The same when the process that seals the segment does not succeed at once.
  @Test(arguments: SharedStoreTests.modes)
  func aFooterIsRememberedWhenTakingOverFails(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    let faulty = FaultStorage(memory)
    var configuration = Store.Configuration.shared(mode)
    configuration.compaction = .manual
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    let survivor = try Store(on: faulty, at: "store", configuration: configuration)
    try await victim.set([1], forKey: "a", durability: .sync)
    #expect(try await survivor.value(forKey: "a") == [1])
    try await victim.dieBehindTheFooter()
    faulty.setScript { event in
      event.operation == .createFile && event.file == "SEGMENT.tmp" ? .fail(.ioError) : nil
    }
    await #expect(throws: StoreError.self) { try await survivor.set([2], forKey: "b") }
    faulty.setScript(nil)
    try await survivor.set([2], forKey: "b", durability: .sync)
    try await survivor.close()
    let again = try Store(on: memory, at: "store", configuration: configuration)
    #expect(try await again.contents() == ["a": [1], "b": [2]])
    try await again.close()
    withExtendedLifetime(victim) {}
  }

  /// A store whose files were replaced waits for no other process when it is closed.
  @Test func storeIsClosedWhileATaskWaitsForTheLockOfAWriter() async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(.mapped)
    let other = try Store(on: memory, at: "store", configuration: configuration)
    let store = try Store(on: memory, at: "store", configuration: configuration)
    try await other.set([1], forKey: "a", durability: .sync)
    #expect(try await store.value(forKey: "a") == [1])
    try await other.holdTheWriter()
    let waiting = Task { try await store.sync() }
    while await !store.waitsForTheWriter { await Task.yield() }
    await store.learnThatItsFilesWereReplaced()
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.code == .storeReplaced)
    await other.freeTheWriter()
    let end = await #expect(throws: StoreError.self) { try await waiting.value }
    #expect(end?.code == .closed)
    try await other.set([2], forKey: "b", durability: .sync)
    try await other.close()
  }

  /// Regression: the waiting task kept `SHARED` locked. The next opening joined the page that said
  /// that a sync had failed, and its writes threw that error.
  @Test(arguments: [false, true])
  func storeThatLeavesWhileATaskWaitsForAWriterKeepsNoLock(isSuspended: Bool) async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(.mapped)
    let store = try Store(on: memory, at: "store", configuration: configuration)
    try await store.set([1], forKey: "a", durability: .sync)
    let other = try SharedLink(try #require(try memory.openDirectory("store")))
    #expect(try other.tryWriter())
    let waiting = Task { try await store.sync() }
    while await !store.waitsForTheWriter { await Task.yield() }
    store.pipeline.poison(StoreError(.io, "a sync failed"))
    if isSuspended { try await store.suspend() } else { try await store.close() }
    let isUnlocked = try other.becomeOnly()
    #expect(isUnlocked)
    // Otherwise the task waits for a minute.
    if !isUnlocked { other.freeWriter() }
    let end = await #expect(throws: StoreError.self) { try await waiting.value }
    let expected: StoreError.Code = isSuspended ? .suspended : .closed
    #expect(end?.code == expected)
    other.leave()
    let next = try Store(on: memory, at: "store", configuration: configuration)
    try await next.set([2], forKey: "a", durability: .sync)
    for store in [next, store] { try await store.close() }
  }

  /// Regression: the task used a state that was gone when it had read the writes of the others.
  @Test func noTaskTakesOverAStoreThatGivesItsStateUp() async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(.mapped)
    let other = try Store(on: memory, at: "store", configuration: configuration)
    let store = try Store(on: memory, at: "store", configuration: configuration)
    try await other.set([1], forKey: "a", durability: .sync)
    #expect(try await store.value(forKey: "a") == [1])
    try await other.holdTheWriter()
    let waiting = Task { try await store.sync() }
    while await !store.waitsForTheWriter { await Task.yield() }
    // Closing waits for the jobs of this thread last.
    let gate = Gate()
    let job = Task { try await store.pipeline.run { gate.pass() } }
    await gate.arrival()
    await store.learnThatItsFilesWereReplaced()
    let closing = Task { try await store.close() }
    while await !store.givesItsStateUp { await Task.yield() }
    await other.freeTheWriter()
    let error = await #expect(throws: StoreError.self) { try await waiting.value }
    #expect(error?.code == .closed)
    gate.open()
    try await job.value
    await #expect(throws: StoreError.self) { try await closing.value }
    try await other.set([2], forKey: "b", durability: .sync)
    try await other.close()
  }

  /// Regression: a process whose store had been moved stopped the processes that have the files
  /// open at their new place: their writes threw the error of a failed sync.
  @Test(arguments: SharedStoreTests.modes, [true, false])
  func storeWhoseFilesWereReplacedStopsNoOtherProcess(
    mode: Store.Configuration.IOMode, hasTheLock: Bool
  ) async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.shared(mode)
    let first = try Store(on: memory, at: "store", configuration: configuration)
    try await first.set([1], forKey: "a", durability: .sync)
    let second = try Store(on: memory, at: "store", configuration: configuration)
    if hasTheLock { try await first.holdTheWriter() }
    await first.learnThatItsFilesWereReplaced()
    let error = await #expect(throws: StoreError.self) { try await first.set([2], forKey: "a") }
    #expect(error?.code == .storeReplaced)
    if hasTheLock {
      await first.freeTheWriter()
    } else {
      #expect(await second.holderOnPage == 0, "the first store has not taken the lock")
    }
    try await second.set([3], forKey: "b", durability: .sync)
    let closing = await #expect(throws: StoreError.self) { try await first.close() }
    #expect(closing?.code == .storeReplaced)
    try await second.set([4], forKey: "c", durability: .sync)
    #expect(try await second.contents() == ["a": [1], "b": [3], "c": [4]])
    try await second.close()
  }
}

extension Store {
  fileprivate var holderOnPage: UInt64? { engine?.log.link?.page.load(.leaseHolder) }

  fileprivate func holdTheWriter() async throws(StoreError) { _ = try await acquireWriterLease() }

  fileprivate func freeTheWriter() { releaseWriterLease() }

  fileprivate var waitsForTheWriter: Bool { peers.isEntering }

  fileprivate var givesItsStateUp: Bool { peers.refusesTakeovers }

  fileprivate func learnThatItsFilesWereReplaced() {
    pipeline.poison(StoreError(.storeReplaced, "the files were replaced", file: "store"))
  }

  fileprivate func dieBehindTheFooter() async throws(StoreError) {
    _ = try await acquireWriterLease()
    try await sealActive()
    engine?.log.link?.freeWriter()
  }
}
