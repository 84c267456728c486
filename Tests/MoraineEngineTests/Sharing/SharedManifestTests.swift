import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Another process replaces the manifest after a reader has looked at the page, and before the
/// reader reads the manifest.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SharedManifestTests {
  private let memory = MemoryStorage()
  private let slow: FaultStorage

  init() { slow = FaultStorage(memory) }

  private func open(
    on storage: any Storage, _ mode: Store.Configuration.IOMode = .mapped
  ) throws -> Store {
    var configuration = Store.Configuration.shared(mode)
    configuration.compaction = .manual
    return try Store(on: storage, at: "store", configuration: configuration)
  }

  /// Stops the reader at one of its next openings of the manifest, counted from 1.
  private func stop(_ gate: Gate, atOpening number: Int) {
    let openings = Mutex(0)
    slow.setScript { event in
      guard event.operation == .openFile, event.file == Manifest.fileName else { return nil }
      return openings.withLock { count in
        count += 1
        return count == number ? .hang(gate) : nil
      }
    }
  }

  /// Returns a writer and a reader. The writer has compacted a segment that the reader knows away,
  /// so that the reader reads the store again. The next segment contains one record, of "b".
  private func outdated(
    _ mode: Store.Configuration.IOMode
  ) async throws -> (writer: Store, reader: Store) {
    let writer = try open(on: memory, mode)
    for key in ["a", "b"] as [Key] {
      try await writer.set([0], forKey: key)
      try await writer.sealForCompaction()
    }
    try await writer.set([0], forKey: "c")
    let reader = try open(on: slow, mode)
    #expect(try await reader.value(forKey: "c") == [0])
    try await writer.set([1], forKey: "a")
    try await writer.compact(segments: 0..<1)
    return (writer, reader)
  }

  /// Regression: the state had neither the old record, which the manifest no longer listed, nor the
  /// new one, which the page did not contain yet.
  @Test(arguments: SharedStoreTests.modes)
  func rereadKeepsAKeyThatIsCompactedDuringIt(mode: Store.Configuration.IOMode) async throws {
    let (writer, reader) = try await outdated(mode)
    let gate = Gate()
    stop(gate, atOpening: 2)
    async let answer = ThreadExecutor.run { try await reader.value(forKey: "b") }
    await gate.arrival()
    try await writer.set([2], forKey: "b")
    try await writer.compact(segments: 0..<1)
    slow.setScript(nil)
    gate.open()
    #expect(try await answer == [2])
    #expect(try await reader.contents() == ["a": [1], "b": [2], "c": [0]])
    for store in [reader, writer] { try await store.close() }
  }

  /// Regression: the number of an operation that the reader had not read counted as seen.
  @Test(arguments: SharedStoreTests.modes)
  func feedLosesNoChangeThatIsWrittenDuringAReread(mode: Store.Configuration.IOMode) async throws {
    let (writer, reader) = try await outdated(mode)
    let gate = Gate()
    stop(gate, atOpening: 2)
    async let answer = ThreadExecutor.run { try await reader.keysOfTwoReads(after: 3) }
    await gate.arrival()
    try await writer.set([2], forKey: "b")
    try await writer.compact(segments: 0..<1)
    slow.setScript(nil)
    gate.open()
    #expect(try await answer == ["a", "b"])
    for store in [reader, writer] { try await store.close() }
  }

  /// The same for a reader that knows all segments that are left, and applies the manifest.
  @Test(arguments: SharedStoreTests.modes)
  func readKeepsAKeyThatIsCompactedDuringIt(mode: Store.Configuration.IOMode) async throws {
    let writer = try open(on: memory, mode)
    try await writer.set([0], forKey: "a")
    let reader = try open(on: slow, mode)
    #expect(try await reader.value(forKey: "a") == [0])
    try await writer.sealForCompaction()
    try await writer.set([1], forKey: "k")
    try await writer.sealForCompaction()
    try await writer.set([1], forKey: "j")
    let gate = Gate()
    stop(gate, atOpening: 1)
    async let answer = ThreadExecutor.run { try await reader.value(forKey: "k") }
    await gate.arrival()
    try await writer.set([2], forKey: "k")
    try await writer.compact(segments: 1..<2)
    slow.setScript(nil)
    gate.open()
    #expect(try await answer == [2])
    #expect(try await reader.contents() == ["a": [0], "j": [1], "k": [2]])
    for store in [reader, writer] { try await store.close() }
  }

  /// The manifest may count operations that its writer has not published yet. A feed that took
  /// their numbers for seen would lose them.
  @Test(arguments: SharedStoreTests.modes)
  func operationsThatOnlyTheManifestCountsAreNotSeenYet(
    mode: Store.Configuration.IOMode
  ) async throws {
    let writer = try open(on: memory, mode)
    try await writer.set([0], forKey: "a")
    let reader = try open(on: memory, mode)
    #expect(try await reader.value(forKey: "a") == [0])
    #expect(try await writer.acquireWriterLease())
    try await writer.appendAndList([1], forKey: "a")
    #expect(try await reader.reread() == .installed)
    #expect(await reader.lastKnownSequence == 1)
    await writer.releaseWriterLease()
    #expect(try await reader.value(forKey: "a") == [1])
    #expect(await reader.lastKnownSequence == 2)
    for store in [reader, writer] { try await store.close() }
  }

  /// A list of the directory may lack a file that is renamed at that moment.
  @Test func aListWithoutTheManifestIsNoDamage() async throws {
    let writer = try open(on: memory)
    try await writer.set([1], forKey: "a")
    let reader = try open(on: slow)
    #expect(try await reader.value(forKey: "a") == [1])
    let directory = try #require(try memory.openDirectory("store"))
    slow.setScript { event in
      guard event.operation == .entries else { return nil }
      do { try directory.rename(Manifest.fileName, to: "elsewhere") } catch { Issue.record(error) }
      return nil
    }
    let isReplaced = try await reader.wasReplaced(.corrupted("a file is missing", "a", at: 0))
    #expect(!isReplaced)
    slow.setScript(nil)
    for store in [reader, writer] { try await store.close() }
  }
}

extension Store {
  fileprivate var lastKnownSequence: UInt64? { engine?.log.lastSequence }

  /// Appends a value, and publishes a manifest that counts it. The page does not contain it.
  fileprivate func appendAndList(_ value: [UInt8], forKey key: Key) async throws(StoreError) {
    guard case .done = try engine!.put(key, value) else {
      Issue.record("the append found no space")
      return
    }
    try await publishManifest()
  }

  /// Returns the keys of the changes that a feed finds with its next two reads.
  fileprivate func keysOfTwoReads(after sequence: UInt64) async throws(StoreError) -> [Key] {
    var place = FeedPlace(sequence: sequence)
    var keys: [Key] = []
    for _ in 0..<2 {
      let changes = try await readChanges(&place, keyspace: nil)
      keys += changes.map(\.key)
    }
    return keys
  }
}
