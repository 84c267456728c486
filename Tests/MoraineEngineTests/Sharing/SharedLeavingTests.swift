import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Processes that open and close a store at the same moment.
@Suite(.timeLimit(.minutes(10))) struct SharedLeavingTests {
  /// The last process has sealed the log, and its files are still open.
  @Test func openingWhileTheLastProcessLeavesSucceeds() async throws {
    let memory = MemoryStorage()
    let first = try Store(on: memory, at: "store", configuration: .shared())
    try await first.set([1], forKey: "a")
    try await first.leaveForGood()
    let second = try Store(on: memory, at: "store", configuration: .shared())
    try await first.close()
    try await second.set([2], forKey: "b")
    #expect(try await second.contents() == ["a": [1], "b": [2]])
    try await second.close()
    let alone = try Store(on: memory, at: "store", configuration: .testing())
    #expect(await alone.recoveryReport.wasClean)
    #expect(try await alone.contents() == ["a": [1], "b": [2]])
    try await alone.close()
  }

  /// A writer that has waited for its turn still uses the store's state.
  @Test func poisonedStoreThatIsClosedWaitsForItsWriter() async throws {
    let memory = MemoryStorage()
    let first = try Store(on: memory, at: "store", configuration: .shared())
    try await first.set([1], forKey: "a")
    let second = try Store(on: memory, at: "store", configuration: .shared())
    #expect(try await second.acquireWriterLease())
    let write = Task { try await first.set([2], forKey: "b") }
    while !(await first.waitsForTheWriterLock) { await Task.yield() }
    first.pipeline.poison(StoreError(.io, "a sync failed"))
    let closing = Task { try await first.close() }
    while !(await first.isClosed) { await Task.yield() }
    // Lets the closing run first if it can.
    for _ in 0..<1000 { await Task.yield() }
    await second.releaseWriterLease()
    await #expect(throws: StoreError.self) { try await write.value }
    try await closing.value
    #expect(try await second.value(forKey: "a") == [1])
    // This store learns of the failed sync when it seals the log.
    await #expect(throws: StoreError.self) { try await second.close() }
  }

  /// A writer repairs the log first: not while a reader reads the unrepaired log.
  @Test func noWriterBeginsWhileAReaderOpens() async throws {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    let writer = try Store(on: memory, at: "store", configuration: .shared())
    try await writer.set([1], forKey: "a")
    try await writer.close()
    let gate = Gate()
    slow.setScript { event in
      event.operation == .openFile && event.file == Manifest.fileName ? .hang(gate) : nil
    }
    var configuration = Store.Configuration.shared()
    configuration.isReadOnly = true
    let opening = Task.detached(executorPreference: ThreadExecutor()) { [configuration] in
      try Store(on: slow, at: "store", configuration: configuration)
    }
    await gate.arrival()
    let link = try SharedLink(try #require(try memory.openDirectory("store")))
    #expect(try !link.tryWriter())
    gate.open()
    let reader = try await opening.value
    #expect(try link.tryWriter())
    link.freeWriter()
    #expect(try await reader.value(forKey: "a") == [1])
    try await reader.close()
  }

  /// After a power failure, the page may promise more than the log holds, and no process makes it
  /// again.
  @Test(arguments: [Store.Configuration.Sharing.shared, .exclusive])
  func aReaderDoesNotBelieveThePageOfAnEarlierBoot(
    sharing: Store.Configuration.Sharing
  ) async throws {
    let directory = try TestDirectory()
    let writer = try Store(at: directory.path, configuration: .shared())
    try await writer.set([1], forKey: "a")
    let end = try #require(await writer.pageSnapshot()).tailEnd
    try await writer.set([2], forKey: "b")
    // A disk after the machine has started again: no process has the store open.
    let after = try TestDirectory()
    try FileManager.default.copyItem(atPath: directory.path.string, toPath: after.path.string)
    let segment = after.path.appending("0000000001.segment")
    let file = try #require(FileHandle(forUpdatingAtPath: segment.string))
    try file.truncate(atOffset: UInt64(end))
    try file.close()
    var configuration = Store.Configuration.shared()
    configuration.sharing = sharing
    configuration.isReadOnly = true
    let reader = try Store(at: after.path, configuration: configuration)
    #expect(try await reader.value(forKey: "b") == nil)
    #expect(try await reader.value(forKey: "a") == [1])
    try await reader.close()
    try await writer.close()
  }
}
