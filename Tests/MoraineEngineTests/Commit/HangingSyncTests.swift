import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// While a sync hangs, acknowledgements wait, the watermark does not advance, and everything else
/// continues.
@Suite struct HangingSyncTests {
  @Test func hangingSyncDelaysOnlyAcknowledgements() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    // Otherwise the first sync of an engine that acknowledges too early would hang here.
    while try await store.statistics().syncUnderWayNanoseconds != nil { await Task.yield() }
    let before = store.durableSequence
    let gate = Gate()
    storage.setScript { $0.operation == .synchronizeData ? .hang(gate) : nil }
    let acknowledged = Mutex(false)
    let waiting = Task {
      let sequence = try await store.set([2], forKey: "b", durability: .sync)
      acknowledged.withLock { $0 = true }
      return sequence
    }
    await gate.arrival()
    #expect(try await store.value(forKey: "b") == [2])
    try await store.set([3], forKey: "c")
    #expect(store.durableSequence == before)
    #expect(try await store.statistics().syncUnderWayNanoseconds != nil)
    // Cancelling neither reverts the write nor makes it durable.
    waiting.cancel()
    #expect(try await store.value(forKey: "c") == [3])
    #expect(acknowledged.withLock { !$0 })
    gate.open()
    let sequence = try await waiting.value
    #expect(store.durableSequence >= sequence)
    #expect(try await store.statistics().syncUnderWayNanoseconds == nil)
    try await store.close()
  }

  @Test func writersThatArriveDuringASyncShareTheNextSync() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing(durability: .sync))
    try await store.set([1], forKey: "first")
    let gate = Gate()
    storage.setScript { $0.operation == .synchronizeData ? .hang(gate) : nil }
    storage.clearTrace()
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await store.set([1], forKey: "leader") }
      await gate.arrival()
      for number in 0..<64 {
        group.addTask {
          let sequence = try await store.set([1], forKey: Key("\(number)"))
          #expect(store.durableSequence >= sequence)
        }
      }
      while try await store.count() < 66 { await Task.yield() }
      gate.open()
      try await group.waitForAll()
    }
    let syncs = storage.trace.count { $0.operation == .synchronizeData }
    #expect((2...3).contains(syncs), "65 commits, \(syncs) syncs")
    try await store.close()
  }

  /// Nothing in a segment is durable before the previous segment is durable.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func nextSegmentWaitsForTheSealOfThePreviousSegment(mode: Store.Configuration.IOMode) async throws
  {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(segmentSizeBytes: 1000, ioMode: mode))
    try await store.set([1], forKey: "a", durability: .sync)
    let before = store.durableSequence
    let gate = Gate()
    // The sync of the first segment, after its footer was written.
    storage.setScript { event in
      event.operation == .synchronizeFull && event.file == "0000000001.segment"
        ? .hang(gate) : nil
    }
    var number = 0
    while try await store.statistics().segmentCount < 2 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      number += 1
    }
    try await store.set([2], forKey: "in the second segment")
    let acknowledged = Mutex(false)
    let waiting = Task {
      try await store.set([3], forKey: "b", durability: .sync)
      acknowledged.withLock { $0 = true }
    }
    await gate.arrival()
    while try await store.count() < number + 3 { await Task.yield() }
    #expect(store.durableSequence == before)
    #expect(acknowledged.withLock { !$0 })
    gate.open()
    try await waiting.value
    #expect(store.durableSequence.rawValue >= UInt64(number + 3))
    try await store.close()
  }
}
