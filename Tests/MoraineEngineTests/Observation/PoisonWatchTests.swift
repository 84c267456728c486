import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A task that supervises a store learns at once that the store is poisoned.
@Suite(.timeLimit(.minutes(10))) struct PoisonWatchTests {
  /// Waits until a task watches the store.
  private func watching(_ store: Store, _ count: Int = 1) async {
    while store.pipeline.monitor.withLock({ $0.watchers.count }) < count { await Task.yield() }
  }

  @Test func waitReturnsThePoison() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    let early = (0..<3).map { _ in Task { await store.waitUntilPoisoned() } }
    await watching(store, 3)
    storage.setScript { $0.operation == .synchronizeData ? .fail(.ioError) : nil }
    await #expect(throws: StoreError.self) {
      try await store.set([1], forKey: "a", durability: .sync)
    }
    for task in early {
      let poison = await task.value
      #expect(poison?.code == .poisoned && poison?.errno == .ioError)
    }
    #expect(await store.waitUntilPoisoned()?.code == .poisoned, "a late waiter gets the poison too")
    try await store.close()
    #expect(await store.waitUntilPoisoned()?.code == .poisoned)
  }

  @Test func closingEndsTheWait() async throws {
    let store = Store.inMemory()
    let task = Task { await store.waitUntilPoisoned() }
    await watching(store)
    try await store.close()
    #expect(await task.value == nil)
    #expect(await store.waitUntilPoisoned() == nil)
  }

  @Test func cancellingEndsTheWait() async throws {
    let store = Store.inMemory()
    let task = Task { await store.waitUntilPoisoned() }
    await watching(store)
    task.cancel()
    #expect(await task.value == nil)
    // At random moments.
    for _ in 0..<200 {
      let task = Task { await store.waitUntilPoisoned() }
      task.cancel()
      #expect(await task.value == nil)
    }
    try await store.set([1], forKey: "a")
    try await store.close()
  }
}
