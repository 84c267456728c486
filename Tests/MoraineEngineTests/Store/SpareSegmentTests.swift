import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// The segment after the active one is created before it is needed, so that no writer waits for
/// its creation, for a sync or for a manifest.
@Suite struct SpareSegmentTests {
  private static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  private static func configuration(
    _ mode: Store.Configuration.IOMode, segmentSizeBytes: Int = 2000
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, ioMode: mode, durability: .none)
    configuration.compaction = .manual
    configuration.spareFloorBytes = 0
    return configuration
  }

  private static let value = [UInt8](0..<100)

  /// Writes numbered keys until the store has this number of segments.
  private func fill(_ store: Store, segments: Int, _ count: inout Int) async throws {
    while try await store.statistics().segmentCount < segments {
      try await store.set(Self.value, forKey: Key("\(count)"))
      count += 1
      try #require(count < 20_000)
    }
  }

  /// Writes numbered keys until the next segment exists.
  private func fillUntilSpare(_ store: Store, _ count: inout Int) async throws {
    while await !store.hasSpare {
      try await store.set(Self.value, forKey: Key("\(count)"))
      count += 1
      try await store.waitUntilIdle()
      try #require(count < 20_000)
    }
  }

  private func expectAll(_ count: Int, _ store: Store) async throws {
    #expect(try await store.count() == count)
    for number in 0..<count {
      #expect(try await store.value(forKey: Key("\(number)")) == Self.value)
    }
    #expect(try await store.verify().isSound)
  }

  private static func isSync(_ operation: StorageEvent.Operation) -> Bool {
    [.synchronizeData, .synchronizeFull, .synchronizeDirectory, .rename].contains(operation)
  }

  /// A sync of the active segment interrupts its writers, and costs them a page fault for each page
  /// that was made present ahead. But where the footer finds no space, a sync does without it.
  @Test(arguments: modes, [false, true])
  func compactionSyncsNoSegmentThatOthersWriteTo(
    mode: Store.Configuration.IOMode, isFull: Bool
  ) async throws {
    let storage = FaultStorage(MemoryStorage())
    let configuration = Self.configuration(mode, segmentSizeBytes: 200_000)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var count = 0
    try await fill(store, segments: 3, &count)
    try await store.waitUntilIdle()
    let before = try await store.statistics().segmentCount
    let gate = Gate()
    let hasHung = Mutex(false)
    storage.setScript { event in
      guard event.operation == .synchronizeFull, event.file.hasSuffix(".segment") else {
        return nil
      }
      // The output is the first segment that is synced.
      return hasHung.withLock { hasHung in
        defer { hasHung = true }
        return hasHung ? nil : .hang(gate)
      }
    }
    try await store.set(Self.value, forKey: "0")
    let compaction = Task { try await store.compact(segments: 0..<1) }
    await gate.arrival()
    for _ in 0..<500 { try await store.set(Self.value, forKey: "1") }
    let tail = try #require(await store.activeName)
    let calls = Mutex((syncs: 0, refusals: 0))
    storage.setScript { event in
      if event.operation == .synchronizeData { calls.withLock { $0.syncs += 1 } }
      guard isFull, event.operation == .write, event.file == tail else { return nil }
      calls.withLock { $0.refusals += 1 }
      return .fail(.noSpace)
    }
    gate.open()
    try await compaction.value
    let (syncs, refusals) = calls.withLock { $0 }
    storage.setScript(nil)
    let isRefused = isFull && mode == .positional
    #expect((refusals > 0) == isRefused, "a mapped file has the space for its footer")
    #expect(syncs == (isRefused ? 1 : 0))
    let after = try await store.statistics().segmentCount
    #expect((after > before) == !isRefused, "the active segment was ended, if it could be")
    #expect(try await store.sync().rawValue == UInt64(count) + 501)
    try await expectAll(count, store)
    try await store.close()
  }

  @Test(arguments: modes)
  func rotationWaitsForNoSync(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    var count = 0
    try await fill(store, segments: 1, &count)
    try await store.set(Self.value, forKey: "half")
    try await fillUntilSpare(store, &count)
    let before = try await store.statistics().segmentCount
    let gate = Gate()
    storage.setScript { Self.isSync($0.operation) ? .hang(gate) : nil }
    try await fill(store, segments: before + 1, &count)
    try await store.set(Self.value, forKey: Key("\(count)"))
    await gate.arrival()
    gate.open()
    storage.setScript(nil)
    try await store.removeValue(forKey: "half")
    try await fill(store, segments: before + 5, &count)
    count += 1
    try await store.set(Self.value, forKey: Key("\(count - 1)"))
    try await expectAll(count, store)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    try await expectAll(count, again)
    try await again.close()
  }

  /// The active segment grows instead.
  @Test func noWriterWaitsWhileTheNextSegmentIsCreated() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration()
    configuration.durability = .none
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let gate = Gate()
    storage.setScript { event in
      event.operation == .createFile && event.file == "0000000002.segment" ? .hang(gate) : nil
    }
    var random = SeededGenerator(seed: 1)
    let value = (0..<100_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    // The limit of a small store's segment is 8 MiB.
    for number in 0..<300 { try await store.set(value, forKey: Key("\(number)")) }
    #expect(try await store.statistics().segmentCount == 1)
    await gate.arrival()
    gate.open()
    storage.setScript(nil)
    try await store.waitUntilIdle()
    for number in 300..<400 { try await store.set(value, forKey: Key("\(number)")) }
    #expect(try await store.statistics().segmentCount > 1)
    for number in 0..<400 { #expect(try await store.value(forKey: Key("\(number)")) == value) }
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.count() == 400)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// A kill, as the file cache leaves the files: with a spare segment, and when it was just taken.
  @Test(arguments: modes, [false, true])
  func killedStoreOpensWithASpareSegment(
    mode: Store.Configuration.IOMode, isTaken: Bool
  ) async throws {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let configuration = Self.configuration(mode)
    let store = try Store(on: storage, at: directory.path, configuration: configuration)
    var count = 0
    try await fillUntilSpare(store, &count)
    let gate = Gate()
    if isTaken {
      storage.setScript { $0.operation == .truncate ? .hang(gate) : nil }
      try await fill(store, segments: try await store.statistics().segmentCount + 1, &count)
      try await store.set(Self.value, forKey: Key("\(count)"))
      count += 1
      await gate.arrival()
    }
    let copy = try TestDirectory()
    try FileManager.default.copyItem(atPath: directory.path.string, toPath: copy.path.string)
    gate.open()
    storage.setScript(nil)
    let killed = try Store(at: copy.path, configuration: configuration)
    try await expectAll(count, killed)
    try await killed.close()
    try await expectAll(count, store)
    try await store.close()
  }

  @Test(arguments: modes)
  func closedStoreHasNoSpareSegment(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    var count = 0
    try await fillUntilSpare(store, &count)
    let segments = try await store.statistics().segmentCount
    #expect(try directory.segments().count == segments + 1)
    try await store.suspend()
    #expect(try directory.segments().count == segments)
    try await store.resume()
    try await expectAll(count, store)
    // The compaction leaves no active segment.
    try await store.compact()
    try await store.close()
    let again = try Store(at: directory.path, configuration: Self.configuration(mode))
    try await expectAll(count, again)
    #expect(try directory.segments().count == (try await again.statistics().segmentCount))
    try await again.close()
  }

  /// A unit that is longer than a segment gets a segment of its own length.
  @Test(arguments: modes)
  func longUnitIsWrittenBesideASpareSegment(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    var count = 0
    try await fillUntilSpare(store, &count)
    var random = SeededGenerator(seed: 1)
    let long = (0..<20_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    try await store.set(long, forKey: "long")
    #expect(try await store.value(forKey: "long") == long)
    try await store.removeValue(forKey: "long")
    try await expectAll(count, store)
    try await store.close()
    let again = try Store(at: directory.path, configuration: Self.configuration(mode))
    try await expectAll(count, again)
    try await again.close()
  }

  /// The disk has no space for the active segment; the spare segment has some. Or sealing the
  /// segment before it frees some.
  @Test(arguments: [true, false])
  func spaceThatIsLeftIsUsedOnAFullDisk(hasSpare: Bool) async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration()
    configuration.durability = .none
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var random = SeededGenerator(seed: 1)
    let value = (0..<100_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    var count = 0
    while await !store.hasSpare {
      try await store.set(value, forKey: Key("\(count)"))
      count += 1
      try await store.waitUntilIdle()
    }
    if hasSpare {
      storage.setScript { event in
        let fails = event.operation == .allocate && event.file == "0000000001.segment"
        return fails ? .fail(.noSpace) : nil
      }
    } else {
      // The first segment is full, and not sealed yet.
      let gate = Gate()
      storage.setScript { $0.operation == .truncate ? .hang(gate) : nil }
      while try await store.statistics().segmentCount < 2 {
        try await store.set(value, forKey: Key("\(count)"))
        count += 1
      }
      await gate.arrival()
      // Until the segment is sealed no allocation succeeds, and no writer needs one yet.
      let state = Mutex((hasFreed: false, failureCount: Int.min))
      storage.setScript { event in
        state.withLock { state in
          if event.operation == .synchronizeFull { state.hasFreed = true }
          if event.operation != .allocate || state.hasFreed { return nil }
          // The writer that needs space asks for much and then for little.
          state.failureCount += 1
          if state.failureCount == 2 { gate.open() }
          return .fail(.noSpace)
        }
      }
      while await store.hasSpace(for: value.count + 100) {
        try await store.set(value, forKey: Key("\(count)"))
        count += 1
      }
      try await store.settleAllocation()
      state.withLock { $0.failureCount = 0 }
    }
    for number in count..<count + 40 { try await store.set(value, forKey: Key("\(number)")) }
    #expect(try await store.statistics().segmentCount == 2)
    storage.setScript(nil)
    for number in 0..<count + 40 {
      #expect(try await store.value(forKey: Key("\(number)")) == value)
    }
    try await store.close()
  }

  /// Where the creation fails, the writer that needs the segment tries again, and gets the error.
  @Test(arguments: modes)
  func writersGoOnWhereNoSpareSegmentCanBeCreated(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    var count = 0
    try await fill(store, segments: 1, &count)
    storage.setScript { event in
      event.operation == .createFile && event.file.hasSuffix(".segment") ? .fail(.noSpace) : nil
    }
    let error = await #expect(throws: StoreError.self) {
      try await fill(store, segments: 2, &count)
    }
    #expect(error?.code == .noSpace)
    storage.setScript(nil)
    try await fill(store, segments: 3, &count)
    try await expectAll(count, store)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    try await expectAll(count, again)
    try await again.close()
  }
}

extension Store {
  /// Whether a segment that was created ahead of need is ready.
  var hasSpare: Bool { engine?.log.spare?.isListed == true }

  fileprivate var activeName: String? {
    engine?.log.active.map { engine!.log.table.fileName($0.slot) }
  }

  /// Whether the active segment has space for so many bytes without another allocation.
  fileprivate func hasSpace(for count: Int) -> Bool {
    engine!.log.end + count <= engine!.log.active!.hardEnd
  }
}
