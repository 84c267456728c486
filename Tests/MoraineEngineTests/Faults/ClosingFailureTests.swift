import MoraineEngine
import MoraineStorage
import MoraineTesting
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
}
