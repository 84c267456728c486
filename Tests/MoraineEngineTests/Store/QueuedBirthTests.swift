import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// The creation of the next segment may be queued after a seal that is about to fail.
@Suite struct QueuedBirthTests {
  /// The seal's publication hangs before its rename, so that the failure comes while the creation
  /// waits.
  @Test(arguments: [StorageEvent.Operation.rename, .synchronizeDirectory])
  func segmentCreationAfterAFailedSealSyncsNothing(failing: StorageEvent.Operation) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000, ioMode: .positional)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "first", durability: .sync)
    let gate = Gate()
    let state = Mutex((isSealing: false, failedAt: Int?.none))
    storage.setScript { event in
      state.withLock { state in
        if event.operation == .truncate, event.file == "0000000001.segment" {
          state.isSealing = true
          return .hang(gate)
        }
        guard state.isSealing, state.failedAt == nil, event.operation == failing else { return nil }
        state.failedAt = event.index
        return .fail(.ioError)
      }
    }
    let writing = Task { () -> StoreError? in
      for number in 0..<400 {
        do throws(StoreError) {
          try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
        } catch {
          return error
        }
      }
      return nil
    }
    await gate.arrival()
    // The second segment fills up, and the creation of the third waits for the hanging seal.
    while store.pipeline.monitor.withLock({ $0.jobs.isEmpty }) { await Task.yield() }
    gate.open()
    #expect(await writing.value?.code == .poisoned)
    try await store.close()
    let failedAt = try #require(state.withLock { $0.failedAt })
    let later = storage.trace.filter { event in
      event.index > failedAt && (event.operation.isSync || event.operation == .rename)
    }
    #expect(later.isEmpty, "after the failure: \(later)")

    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.value(forKey: "first") == [1])
    #expect(try await again.verify().isSound)
    try await again.close()
  }
}
