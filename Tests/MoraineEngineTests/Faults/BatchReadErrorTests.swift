import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A batch looks up the records that it replaces; a failed look-up fails the batch before anything
/// is written.
@Suite struct BatchReadErrorTests {
  private static let configuration = Store.Configuration.hashed(
    segmentSizeBytes: 4000, ioMode: .positional)

  /// Regression: the keys were looked up again after the batch was in the log. A read that failed
  /// then left half of the batch visible, and the store could not be opened any more, because its
  /// digest was wrong.
  @Test func aReadThatFailsLeavesNothingOfTheBatch() async throws {
    var number = 0
    while try await failRead(number) { number += 1 }
    #expect(number == 3, "one read for each existing key")
  }

  /// - Returns: whether the batch made that many reads.
  private func failRead(_ number: Int) async throws -> Bool {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    let before: [Key: [UInt8]] = ["a": [1], "b": [2], "c": [3]]
    for (key, value) in before { try await store.set(value, forKey: key) }
    let reads = Mutex(0)
    storage.setScript { event in
      guard event.operation == .read else { return nil }
      return reads.withLock { count in
        defer { count += 1 }
        return count == number ? .fail(.ioError) : nil
      }
    }
    var error: StoreError?
    do {
      try await store.write { batch in
        for key in ["b", "a", "d", "c"] { try batch.set([9], forKey: Key(key)) }
      }
    } catch let cause {
      error = cause as? StoreError
    }
    storage.setScript(nil)
    guard let error else { return false }
    #expect(error.code == .io)
    #expect(try await store.contents() == before, "read \(number)")
    try await store.set([7], forKey: "later", durability: .sync)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: Self.configuration)
    #expect(try await again.contents() == before.merging(["later": [7]]) { $1 })
    #expect(try await again.verify().isSound)
    try await again.close()
    return true
  }

  /// A batch reads a value that it depends on, and the read fails: the read throws in the body, and
  /// nothing is written.
  @Test(arguments: [true, false])
  func failedReadInsideABatchThrows(isContains: Bool) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration)
    try await store.set([1], forKey: "a")
    storage.setScript { $0.operation == .read ? .fail(.ioError) : nil }
    let number = try await store.statistics().lastSequence
    let error = await #expect(throws: StoreError.self) {
      try await store.write { batch in
        try batch.set([2], forKey: "b")
        #expect(try batch.value(forKey: "b") == [2])
        _ = isContains ? try batch.contains("a") : try batch.value(forKey: "a") != nil
      }
    }
    #expect(error?.code == .io)
    #expect(error?.file == "0000000001.segment")
    storage.setScript(nil)
    #expect(try await store.statistics().lastSequence == number)
    #expect(try await store.contents() == ["a": [1]])
    try await store.close()
  }

  /// The last of several operations on a key in one batch counts.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional], [1, 2, 3] as [UInt64])
  func keysMayComeSeveralTimes(mode: Store.Configuration.IOMode, seed: UInt64) async throws {
    let storage = MemoryStorage()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 3000, ioMode: mode)
    var random = SeededGenerator(seed: seed)
    var model: [Key: [UInt8]] = [:]
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for _ in 0..<60 {
      try await store.write { batch in
        for _ in 0..<(1 + random.next() % 9) {
          let key = Key("key \(random.next() % 4)")
          let value = [UInt8](repeating: UInt8(random.next() % 256), count: 30)
          if random.next() % 3 == 0 {
            try batch.removeValue(forKey: key)
            model[key] = nil
          } else {
            try batch.set(value, forKey: key)
            model[key] = value
          }
        }
      }
      #expect(try await store.contents() == model, "seed \(seed)")
    }
    let statistics = try await store.statistics()
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.contents() == model, "seed \(seed)")
    #expect(try await again.statistics().digest == statistics.digest, "seed \(seed)")
    #expect(try await again.statistics().liveBytes == statistics.liveBytes, "seed \(seed)")
    try await again.close()
  }
}
