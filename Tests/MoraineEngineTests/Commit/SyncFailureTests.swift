import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// The first failure after which the contents of the disk are unknown ends writing for good (P6).
@Suite struct SyncFailureTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Store.Configuration.IOMode
    let operation: StorageEvent.Operation
    /// The end of the name of the file whose call fails; empty for the directory.
    let suffix: String
    var testDescription: String { "\(mode), \(operation.rawValue) \(suffix)" }
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [
      (StorageEvent.Operation.synchronizeData, ".segment"), (.synchronizeFull, ".segment"),
      (.synchronizeFull, "MANIFEST.tmp"), (.rename, "MANIFEST.tmp"),
      (.synchronizeDirectory, ""),
    ].map { Case(mode: mode, operation: $0, suffix: $1) }
  }

  @Test(arguments: cases)
  func failedSyncEndsWritingUntilReopening(_ item: Case) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Store.Configuration.testing(segmentSizeBytes: 2000, ioMode: item.mode)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<5 { try await store.set([1], forKey: Key("before \(number)")) }
    try await store.sync()
    let failures = Mutex(0)
    storage.setScript { event in
      guard event.operation == item.operation, event.file.hasSuffix(item.suffix) else { return nil }
      // Fails once; every later call would succeed.
      return failures.withLock { count in
        count += 1
        return count == 1 ? .fail(.ioError) : nil
      }
    }
    let acknowledged = try await writeUntilPoisoned(store)
    storage.clearTrace()
    let error = await #expect(throws: StoreError.self) { try await store.set([1], forKey: "x") }
    #expect(error?.code == .poisoned)
    await #expect(throws: StoreError.self) { try await store.removeValue(forKey: "before 1") }
    await #expect(throws: StoreError.self) { try await store.sync() }
    #expect(store.poison?.errno == .ioError)
    #expect(try await store.value(forKey: "before 1") == [1])
    try await store.close()
    #expect(!storage.trace.contains { $0.operation.isSync }, "a failed sync is never repeated")

    let again = try Store(on: storage, at: "store", configuration: configuration)
    for key in acknowledged { #expect(try await again.contains(key)) }
    try await again.set([2], forKey: "x", durability: .sync)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// - Returns: the keys that were acknowledged before the first `.poisoned`.
  private func writeUntilPoisoned(_ store: Store) async throws -> [Key] {
    var acknowledged: [Key] = []
    for number in 0..<400 {
      let key = Key("key \(number)")
      do throws(StoreError) {
        try await store.set(
          [UInt8](0..<50), forKey: key, durability: number % 20 == 9 ? .sync : nil)
        acknowledged.append(key)
      } catch {
        // The call that failed may throw an error with its own code; the next calls throw
        // `.poisoned`.
        if store.poison != nil { return acknowledged }
      }
    }
    Issue.record("nothing poisoned the store")
    return acknowledged
  }

  @Test func followersGetTheLeadersError() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(durability: .sync))
    try await store.set([1], forKey: "first")
    let gate = Gate()
    let syncs = Mutex(0)
    storage.setScript { event in
      guard event.operation == .synchronizeData else { return nil }
      // The first sync hangs; the next sync, which serves all writers that arrived by then, fails.
      let number = syncs.withLock { count in
        count += 1
        return count
      }
      return number == 1 ? .hang(gate) : .fail(.ioError)
    }
    let outcomes = try await withThrowingTaskGroup(of: StoreError?.self) { group in
      group.addTask { await outcome(store, "leader") }
      await gate.arrival()
      for number in 0..<16 { group.addTask { await outcome(store, "follower \(number)") } }
      // All writers have appended, and wait, before the first sync ends.
      while try await store.count() < 18 { await Task.yield() }
      gate.open()
      return try await group.reduce(into: [StoreError?]()) { $0.append($1) }
    }
    #expect(outcomes.count { $0 == nil } == 1, "the first sync served only the leader")
    #expect(outcomes.compactMap { $0?.errno } == Array(repeating: Errno.ioError, count: 16))
    #expect(syncs.withLock { $0 } == 2)
    try await store.close()
  }

  @Sendable private func outcome(_ store: Store, _ key: Key) async -> StoreError? {
    do throws(StoreError) {
      try await store.set([2], forKey: key)
      return nil
    } catch {
      return error
    }
  }
}
