import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Reading what other processes have written may take long; the store answers others meanwhile, and
/// no thread of Swift's is kept.
@Suite(.timeLimit(.minutes(1))) struct SharedWaitTests {
  @Test(arguments: SharedStoreTests.modes)
  func storeAnswersOthersWhileAReaderOpensIt(mode: Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    let configuration = Configuration.shared(mode)
    let reader = try Store(on: slow, at: "store", configuration: configuration)
    #expect(try await reader.value(forKey: "a") == nil)
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    try await writer.set([1], forKey: "a")
    let gate = Gate()
    slow.setScript { event in
      event.operation == .openFile && event.file == Manifest.fileName ? .hang(gate) : nil
    }
    async let answer = reader.value(forKey: "a")
    await gate.arrival()
    #expect(await reader.recoveryReport.replayedBytes == 0, "the store is not open yet")
    slow.setScript(nil)
    gate.open()
    #expect(try await answer == [1])
    for store in [writer, reader] { try await store.close() }
  }

  /// Segments that are gone make a reader read the whole store again.
  @Test(arguments: SharedStoreTests.modes)
  func storeAnswersOthersWhileAReaderReadsItAgain(mode: Configuration.IOMode) async throws {
    let gate = Gate()
    let (reader, writer) = try await Self.outdated(gate, mode)
    async let answer = reader.value(forKey: "3")
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

  /// A write of the same process comes while a reader reads the store again: what the reader has
  /// then is older.
  @Test(arguments: SharedStoreTests.modes)
  func writerKeepsItsStateWhileAReaderReadsTheStoreAgain(mode: Configuration.IOMode) async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate, mode)
    async let answer = store.value(forKey: "3")
    await gate.arrival()
    #expect(try await store.enterBurst())
    try await store.set([2], forKey: "mine")
    gate.open()
    #expect(try await answer == [1])
    #expect(try await store.value(forKey: "mine") == [2], "within the burst")
    try await store.set([3], forKey: "mine")
    await store.leaveBurst()
    #expect(try await other.value(forKey: "mine") == [3])
    #expect(try await store.verify().isSound)
    for store in [other, store] { try await store.close() }
  }

  /// A store whose segments another process has compacted away, and which hangs when it is read
  /// again for the first time.
  private static func outdated(
    _ gate: Gate, _ mode: Configuration.IOMode = .mapped
  ) async throws -> (store: Store, other: Store) {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    var configuration = Configuration.shared(mode, segmentSizeBytes: 4000)
    configuration.compaction = .manual
    let other = try Store(on: memory, at: "store", configuration: configuration)
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

  /// Two that wait for the same reading would otherwise both begin when it has ended.
  @Test func compactionsThatWaitForAReadingComeOneAfterTheOther() async throws {
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

  /// The feed has not begun to wait, so that closing wakes nobody.
  @Test func feedEndsWhenTheStoreIsClosedWhileItIsReadAgain() async throws {
    let gate = Gate()
    let (store, other) = try await Self.outdated(gate)
    let feed = Task { for try await _ in store.changes() {} }
    await gate.arrival()
    let closing = Task { try await store.close() }
    while !(await store.isClosed) { await Task.yield() }
    gate.open()
    try await feed.value
    try await closing.value
    #expect(await store.hasNoState, "what was read for the feed is not installed")
    try await other.close()
  }

  /// The name of the keyspace comes with the record.
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
}
