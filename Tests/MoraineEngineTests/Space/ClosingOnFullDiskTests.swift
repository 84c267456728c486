import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A put waits until a full disk has been cleaned, and the store is closed during the wait.
@Suite(.timeLimit(.minutes(10))) struct ClosingOnFullDiskTests {
  @Test func putThatWaitsForSpaceThrowsWhenTheStoreIsClosed() async throws {
    let storage = FaultStorage(MemoryStorage(capacityBytes: 1 << 20))
    var configuration = Store.Configuration.testing(segmentSizeBytes: 100_000)
    // Only a full disk starts compaction.
    configuration.compaction.spaceAmplificationLimit = 100
    configuration.compaction.sharesDictionaries = false
    configuration.checkpointFloorBytes = 1 << 40
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let value = (0..<300).map { UInt8(truncatingIfNeeded: $0 &* $0 &* 7) }
    let gate = Gate()
    // Only compaction opens mapped segments by name.
    try await store.set(value, forKey: "0")
    storage.setScript { event in
      event.operation == .openFile && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    async let writing: (count: Int, error: StoreError?) = {
      for number in 1..<100_000 {
        do throws(StoreError) {
          try await store.set(value, forKey: Key("\(number % 500)"))
        } catch {
          return (number, error)
        }
      }
      return (100_000, nil)
    }()
    await gate.arrival()
    async let closing: Void = store.close()
    while await !store.isClosed { await Task.yield() }
    gate.open()
    try await closing
    let (count, error) = await writing
    #expect(error?.code == .closed)
    #expect(count > 1000)
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.count() == 500)
    #expect(try await again.verify().isSound)
    try await again.close()
  }
}
