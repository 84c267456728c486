import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@Suite(.timeLimit(.minutes(10))) struct ClosingFailureTests {
  /// Found with pairs of faults: closing gave up before anything was synced, when the reserve could
  /// not be released.
  @Test func aReserveThatStaysKeepsNothingFromBecomingDurable() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    storage.setScript { event in
      event.operation == .remove && event.file == "RESERVE" ? .fail(.ioError) : nil
    }
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.file == "RESERVE")
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: .testing())
    #expect(await again.recoveryReport.wasClean)
    #expect(try await again.value(forKey: "a") == [1])
    try await again.close()
  }

  /// The second call returns when the writes are durable, and not before the first one.
  @Test func closingTwiceAtTheSameTimeEndsTogether() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(durability: Durability.none))
    try await store.set([1], forKey: "a")
    let gate = Gate()
    storage.setScript { $0.operation == .remove && $0.file == "RESERVE" ? .hang(gate) : nil }
    let ended = Ended()
    let calls = (0..<8).map { _ in
      Task {
        defer { ended.record() }
        try await store.close()
      }
    }
    await gate.arrival()
    // Each call has had its turns, and waits.
    for _ in 0..<1000 { await Task.yield() }
    #expect(ended.count == 0)
    storage.setScript(nil)
    gate.open()
    for call in calls { try await call.value }
    #expect(ended.count == 8)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: .testing())
    #expect(await again.recoveryReport.wasClean)
    try await again.close()
  }

  @Test func callThatWaitsForAnotherCloseThrowsItsError() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    let gate = Gate()
    storage.setScript { event in
      if event.operation == .remove, event.file == "RESERVE" { return .fail(.ioError) }
      return event.operation == .rename ? .hang(gate) : nil
    }
    let calls = (0..<2).map { _ in Task { try await store.close() } }
    await gate.arrival()
    for _ in 0..<1000 { await Task.yield() }
    gate.open()
    for call in calls {
      await #expect(throws: StoreError.self) { try await call.value }
    }
  }

  private final class Ended: Sendable {
    private let value = Mutex(0)
    var count: Int { value.withLock { $0 } }
    func record() { value.withLock { $0 += 1 } }
  }
}
