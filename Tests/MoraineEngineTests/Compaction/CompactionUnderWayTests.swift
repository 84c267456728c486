import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Reads and writes by other tasks while compaction runs.
@Suite(.timeLimit(.minutes(10))) struct CompactionUnderWayTests {
  /// Between the publication and the end of the installation, live records are partly in the old
  /// segments and partly in the new one.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func everyReadDuringInstallationSeesAWholeStore(mode: Store.Configuration.IOMode) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 400_000, ioMode: mode)
    configuration.compaction = .manual
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<20_000 { try await store.set([1, 2, 3], forKey: Key("\(number % 12_000)")) }
    let compaction = Task { try await store.compact() }
    // Ends after the first look that found no garbage.
    var hasGarbage = true
    while hasGarbage {
      let statistics = try await store.statistics()
      hasGarbage = statistics.spaceAmplification > 1.05
      #expect(try await liveCount(store) == 12_000)
      #expect(try await store.verify().isSound)
    }
    _ = try await compaction.value
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  private func liveCount(_ store: Store) async throws -> Int {
    let count = Mutex(0)
    try await store.scan { _ in
      count.withLock { $0 += 1 }
      return true
    }
    return count.withLock { $0 }
  }

  /// Rotation and compaction both take segment numbers and publish manifests, in turns.
  @Test(arguments: 0..<6 as Range<UInt64>)
  func rotationAndCompactionDoNotInterfere(seed: UInt64) async throws {
    let storage = MemoryStorage()
    let mode: Store.Configuration.IOMode = seed % 2 == 0 ? .mapped : .positional
    var configuration = Store.Configuration.testing(segmentSizeBytes: 500, ioMode: mode)
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for writer in 0..<3 {
        group.addTask {
          var random = SeededGenerator(seed: seed &* 10 &+ UInt64(writer))
          for number in 0..<300 {
            let key = Key("\(writer) \(random.next() % 20)")
            if random.next() % 4 == 0 {
              try await store.removeValue(forKey: key)
            } else {
              try await store.set([UInt8](repeating: UInt8(number % 256), count: 60), forKey: key)
            }
          }
        }
      }
      group.addTask { for _ in 0..<30 { try await store.compact() } }
      try await group.waitForAll()
    }
    let (count, digest) = (try await store.count(), try await store.statistics().digest)
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.count() == count)
    #expect(try await again.statistics().digest == digest)
    try await again.close()
  }

  /// Closing ends the compaction, and waits for its end.
  @Test func closingEndsACompaction() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: .positional)
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<300 { try await store.set([UInt8](0..<50), forKey: "\(number % 40)") }
    let gate = Gate()
    storage.setScript { event in
      event.operation == .createFile && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    let compaction = Task { try await store.compact() }
    await gate.arrival()
    let closing = Task { try await store.close() }
    while await answers(store) { await Task.yield() }
    gate.open()
    let error = await #expect(throws: StoreError.self) { try await compaction.value }
    #expect(error?.code == .closed)
    try await closing.value
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.count() == 40)
    #expect(await again.recoveryReport.removedFiles.isEmpty, "no file was left over")
    try await again.close()
  }

  private func answers(_ store: Store) async -> Bool {
    do throws(StoreError) {
      _ = try await store.contains("0")
      return true
    } catch {
      return false
    }
  }

  /// Cancelling ends the compaction between two segments, and keeps the finished part.
  @Test func cancellingEndsACompactionEarly() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000)
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    for number in 0..<200 { try await store.set([UInt8](0..<50), forKey: "\(number)") }
    for number in 0..<100 { try await store.removeValue(forKey: "\(number * 2)") }
    let gate = Gate()
    let count = Mutex(0)
    storage.setScript { event in
      guard event.operation == .createFile, event.file.hasSuffix(".segment") else { return nil }
      return count.withLock { count in
        count += 1
        return count == 3 ? .hang(gate) : nil
      }
    }
    let compaction = Task { try await store.compact() }
    await gate.arrival()
    compaction.cancel()
    gate.open()
    let report = try await compaction.value
    #expect(report.inputSegmentCount > 0)
    #expect(try await store.compact().inputSegmentCount > 0, "there was more to do")
    #expect(try await store.count() == 100)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
