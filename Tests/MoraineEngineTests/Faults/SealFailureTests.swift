import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// The seal of a full segment runs in the background; its failure ends writing too (P6, rule 2).
@Suite struct SealFailureTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Store.Configuration.IOMode
    let operation: StorageEvent.Operation
    /// The file whose call fails, once the seal has begun.
    let file: String
    var testDescription: String { "\(mode), \(operation.rawValue) \(file)" }
  }

  static let sealed = "0000000001.segment"

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [
      (StorageEvent.Operation.truncate, sealed), (.synchronizeFull, sealed),
      (.synchronizeFull, "MANIFEST.tmp"), (.rename, "MANIFEST.tmp"),
      (.synchronizeDirectory, "store"),
    ].map { Case(mode: mode, operation: $0, file: $1) }
  }

  /// Fails the selected call once, the first time after the truncation of the first segment has
  /// begun.
  private final class Script: Sendable {
    private let state = Mutex((isSealing: false, failedAt: Int?.none))

    func judge(_ event: StorageEvent, _ item: Case) -> StorageFault? {
      state.withLock { state in
        if event.operation == .truncate, event.file == SealFailureTests.sealed {
          state.isSealing = true
        }
        guard state.isSealing, state.failedAt == nil, event.operation == item.operation,
          event.file == item.file
        else { return nil }
        state.failedAt = event.index
        return .fail(.ioError)
      }
    }

    var failedAt: Int? { state.withLock { $0.failedAt } }
  }

  @Test(arguments: cases)
  func aFailedSealEndsWritingAndLosesNothing(_ item: Case) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: item.mode)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "first", durability: .sync)
    let script = Script()
    storage.setScript { script.judge($0, item) }
    var acknowledged = 0
    var failure: StoreError?
    while failure == nil, acknowledged < 400 {
      do throws(StoreError) {
        // A durable record in the second segment implies that the first segment is durable.
        let isWaiting = try await store.statistics().segmentCount > 1
        try await store.set(
          [UInt8](0..<50), forKey: Key("\(acknowledged)"), durability: isWaiting ? .sync : nil)
        acknowledged += 1
      } catch {
        failure = error
      }
    }
    #expect(failure?.code == .poisoned)
    #expect(failure?.errno == .ioError)
    let failedAt = try #require(script.failedAt)
    let error = await #expect(throws: StoreError.self) { try await store.set([1], forKey: "x") }
    #expect(error?.code == .poisoned)
    #expect(try await store.value(forKey: "first") == [1])
    try await store.close()
    let later = storage.trace.filter { $0.index > failedAt && $0.operation.isSync }
    #expect(later.isEmpty, "a failed sync is never repeated: \(later)")

    // The process did not die: every acknowledged operation exists, and no hole precedes the rest.
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    let count = try await again.count()
    #expect(count > acknowledged)
    for number in 0..<count - 1 {
      #expect(try await again.value(forKey: Key("\(number)")) == [UInt8](0..<50))
    }
    #expect(try await again.value(forKey: "first") == [1])
    try await again.set([2], forKey: "x", durability: .sync)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  @Test(arguments: cases)
  func closeThrowsTheErrorOfAFailedSeal(_ item: Case) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(ioMode: item.mode)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "a", durability: .sync)
    try await store.set([2], forKey: "b")
    let script = Script()
    storage.setScript { script.judge($0, item) }
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.errno == .ioError)
    let failedAt = try #require(script.failedAt)
    #expect(!storage.trace.contains { $0.index > failedAt && $0.operation.isSync })
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.value(forKey: "a") == [1])
    #expect(try await again.value(forKey: "b") == [2])
    #expect(try await again.verify().isSound)
    try await again.close()
  }
}
