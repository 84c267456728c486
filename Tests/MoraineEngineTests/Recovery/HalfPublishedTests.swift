import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Rule 3, found by the laboratory: a manifest that was renamed, and whose directory was not
/// synced, may or may not be the manifest after a power failure.
@Suite struct HalfPublishedTests {
  /// Fails the directory's sync after the n-th manifest.
  private func failSync(_ storage: FaultStorage, after number: Int) {
    let renames = Counter()
    let syncs = Counter()
    storage.setScript { event in
      if event.operation == .rename { renames.increase() }
      guard event.operation == .synchronizeDirectory, renames.value == number else { return nil }
      return syncs.increase() == 1 ? .fail(.ioError) : nil
    }
  }

  /// Regression: the number of the segment that this manifest may list was given to the output of a
  /// compaction, which removed the file.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func segmentNumberOfAHalfPublishedManifestIsNotReused(
    mode: Store.Configuration.IOMode
  ) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 300, ioMode: mode)
    configuration.compaction = .manual
    let disk = SimulatedDisk()
    let storage = FaultStorage(disk)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var saved = 0
    // The first manifest belongs to the empty store; each segment has two: one lists it as begun,
    // and one lists the previous segment as sealed.
    failSync(storage, after: 7)
    while saved < 100 {
      do { try await store.set([UInt8](repeating: 7, count: 60), forKey: Key("\(saved)")) } catch {
        break
      }
      saved += 1
    }
    try #require(saved > 1 && saved < 100)
    await #expect(throws: StoreError.self) { try await store.compact(segments: 0..<1) }
    let next = try SimulatedDisk(disk.image(.everything)).openStore(configuration: configuration)
    for number in 0..<saved { #expect(try await next.value(forKey: Key("\(number)")) != nil) }
    #expect(try await next.verify().isSound)
    try await next.close()
  }

  /// Regression: recovery removed a segment that this manifest does not list, and the segment was
  /// missing after a power failure.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func unlistedSegmentIsRemovedAfterTheManifestIsDurable(
    mode: Store.Configuration.IOMode
  ) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 300, ioMode: mode)
    configuration.compaction = .manual
    let disk = SimulatedDisk()
    let first = try disk.openStore(configuration: configuration)
    for number in 0..<9 {
      try await first.set([UInt8](repeating: 7, count: 60), forKey: Key("\(number % 3)"))
    }
    try await first.close()
    let storage = FaultStorage(disk)
    let second = try Store(on: storage, at: "store", configuration: configuration)
    failSync(storage, after: 1)
    await #expect(throws: StoreError.self) { try await second.compact() }
    try await second.close()
    let third = try disk.openStore(configuration: configuration)
    #expect(try await third.count() == 3)
    for seed in 0..<20 {
      let image = SimulatedDisk(disk.image(.pages(seed: UInt64(seed))))
      let after = try image.openStore(configuration: configuration)
      #expect(try await after.count() == 3)
      try await after.close()
    }
    try await third.close()
  }
}

/// A number that threads count up.
private final class Counter: Sendable {
  private let count = Mutex(0)

  var value: Int { count.withLock { $0 } }

  @discardableResult
  func increase() -> Int {
    count.withLock { count in
      count += 1
      return count
    }
  }
}
