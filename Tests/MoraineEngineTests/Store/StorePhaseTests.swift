import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// The state of the stores of a process, as an opening in the same process sees it.
@Suite struct StorePhaseTests {
  /// Regression: between the end of a store's last reference and the end of its `deinit` the
  /// directory is locked, and an opening at that moment was refused. The test forces that moment.
  @Test func storeWithoutReferencesIsLeavingUntilItsLockIsFree() throws {
    let ground = try TestDirectory()
    try DiskStorage().createDirectory(ground.path)
    let directory = try #require(try DiskStorage().openDirectory(ground.path))
    let identity = try #require(directory.identity)
    #expect(StorePhase.holder(of: identity) == .elsewhere)
    let phase = StorePhase()
    phase.setDirectory(directory)
    var store: Store? = .inMemory()
    phase.opened(try #require(store))
    #expect(StorePhase.holder(of: identity) == .inUse)
    store = nil
    #expect(StorePhase.holder(of: identity) == .leaving)
    phase.end()
    #expect(StorePhase.holder(of: identity) == .elsewhere)
  }

  /// Regression: a store that was released while it created a segment, or while it compacted, was
  /// kept by that task, and an opening at that moment was refused.
  @Test(arguments: [(StorageEvent.Operation.createFile, 12), (.truncate, 18)])
  func storeThatIsReleasedDuringATaskCanBeOpened(
    stop: StorageEvent.Operation, count: Int
  ) async throws {
    let ground = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    var configuration = Store.Configuration.testing(segmentSizeBytes: 2000, durability: .none)
    configuration.spareFloorBytes = 0
    var store: Store? = try Store(on: storage, at: ground.path, configuration: configuration)
    try await store?.set([UInt8](0..<100), forKey: "first")
    let gate = Gate()
    storage.setScript { $0.operation == stop ? .hang(gate) : nil }
    for number in 0..<count { try await store?.set([UInt8](0..<100), forKey: Key("\(number)")) }
    await gate.arrival()
    let phase = try #require(store?.observers.phase)
    store = nil
    let opening = Task.detached { [path = ground.path] in
      try await Store.open(at: path, configuration: configuration)
    }
    // Only a task, or also a job, may still work for the store.
    let identity = try #require(phase.directory)
    while !phase.isAwaited, StorePhase.holder(of: identity) != .leaving { await Task.yield() }
    gate.open()
    let next = try await opening.value
    #expect(try await next.count() == count + 1)
    try await next.close()
  }

  @Test func longTasksEndEarlyForAnOpeningThatWaits() async throws {
    let ground = try TestDirectory()
    try DiskStorage().createDirectory(ground.path)
    let directory = try #require(try DiskStorage().openDirectory(ground.path))
    let identity = try #require(directory.identity)
    let phase = StorePhase()
    phase.setDirectory(directory)
    let store = Store.inMemory()
    phase.opened(store)
    await phase.runTask {
      #expect(StorePhase.holder(of: identity) == .busy)
      let wait = StorePhase.awaitTasks(of: identity)
      #expect(phase.isAwaited)
      // Regression: an opening that gave up left the store without compactions.
      wait.end()
      #expect(!phase.isAwaited)
    }
    #expect(StorePhase.holder(of: identity) == .inUse)
    phase.end()
    withExtendedLifetime(store) {}
  }

  private final class EndingStore: Sendable {
    private let phase: StorePhase

    init(_ phase: StorePhase) { self.phase = phase }

    deinit { phase.end() }
  }

  /// Regression: an opening that looked at a store at the moment of its end held the last reference
  /// under the lock of the phase, which the end of a store takes too.
  @Test func storeThatEndsDuringALookEndsOutsideOfTheLock() async throws {
    let ground = try TestDirectory()
    try DiskStorage().createDirectory(ground.path)
    let directory = try #require(try DiskStorage().openDirectory(ground.path))
    let hasEnded = Mutex(false)
    let looking = Task.detached {
      while !hasEnded.withLock({ $0 }) {
        for _ in 0..<100 { _ = StorePhase.isAnyLeaving }
        await Task.yield()
      }
    }
    for number in 0..<2000 {
      let phase = StorePhase()
      phase.setDirectory(directory)
      let store = EndingStore(phase)
      phase.opened(store)
      // The store ends at a moment of the other task's look that differs each time. A wait for the
      // lock would end after the look.
      SystemClock.sleep(nanoseconds: UInt64(number % 8) * 10_000)
      withExtendedLifetime(store) {}
    }
    hasEnded.withLock { $0 = true }
    await looking.value
    let identity = try #require(directory.identity)
    #expect(StorePhase.holder(of: identity) == .elsewhere)
  }
}
