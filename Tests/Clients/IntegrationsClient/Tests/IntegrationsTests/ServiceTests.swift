import Logging
import MetricsTestKit
import Moraine
import MoraineTesting
import ServiceLifecycle
import ServiceLifecycleTestKit
import Testing

/// Tests of the trait `ServiceLifecycle`.
@Suite(.timeLimit(.minutes(5))) struct ServiceTests {
  /// Expects that nothing was written after the store was closed, and that it was closed in order.
  private func expectClosed(_ store: Store, _ disk: SimulatedDisk) async throws {
    let error = await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    #expect(error?.code == .closed)
    let again = try disk.openStore()
    #expect(try await again.value(forKey: "a") == [1])
    try await again.close()
  }

  private func open(_ disk: SimulatedDisk, _ onEvent: EventList) throws -> Store {
    var configuration = Store.Configuration()
    configuration.onEvent = onEvent.add
    return try disk.openStore(configuration: configuration)
  }

  @Test func gracefulShutdownClosesTheStore() async throws {
    let disk = SimulatedDisk()
    let store = try open(disk, EventList())
    try await store.set([1], forKey: "a", durability: Durability.none)
    try await testGracefulShutdown { trigger in
      try await withThrowingTaskGroup { group in
        group.addTask { try await StoreService(store).run() }
        #expect(
          try await store.value(forKey: "a") == [1], "the store is open while the service runs")
        trigger.triggerGracefulShutdown()
        try await group.waitForAll()
      }
    }
    try await expectClosed(store, disk)
  }

  @Test func cancellationClosesTheStore() async throws {
    let disk = SimulatedDisk()
    let list = EventList()
    let store = try open(disk, list)
    try await store.set([1], forKey: "a", durability: Durability.none)
    let running = Task { try await StoreService(store).run() }
    running.cancel()
    try await running.value
    #expect(list.isClosedWithoutFailure)
    try await expectClosed(store, disk)
  }

  @Test func aPoisonedStoreEndsTheService() async throws {
    let list = EventList()
    var configuration = Store.Configuration()
    configuration.onEvent = list.add
    let fault = DiskFault.ofFirstSync
    let store = try SimulatedDisk().openStore(configuration: configuration, faults: [fault])
    let running = Task { try await StoreService(store).run() }
    await #expect(throws: StoreError.self) {
      try await store.set([1], forKey: "a", durability: .sync)
    }
    let error = await #expect(throws: StoreError.self) { try await running.value }
    #expect(error?.code == .poisoned)
    #expect(list.isClosedWithoutFailure, "the lock of its directory is released")
  }

  @Test func runThrowsTheErrorOfClosing() async throws {
    let store = try SimulatedDisk().openStore(faults: [.ofFirstSync])
    try await store.set([1], forKey: "a", durability: Durability.none)
    let running = Task { try await StoreService(store).run() }
    running.cancel()
    let error = await #expect(throws: StoreError.self) { try await running.value }
    #expect(error?.code == .io)
  }

  /// The program that started the service decides what the end means.
  @Test func serviceEndsWhenTheProgramClosesTheStore() async throws {
    let store = Store.inMemory()
    let running = Task { try await StoreService(store).run() }
    try await store.close()
    try await running.value
  }

  @Test func storeIsClosedAfterItsServices() async throws {
    let disk = SimulatedDisk()
    let list = EventList()
    let store = try open(disk, list)
    let writer = Writer(store: store)
    let group = ServiceGroup(
      configuration: .init(
        services: [.init(service: StoreService(store)), .init(service: writer)],
        logger: Logger(label: "group", factory: { _ in SwiftLogNoOpLogHandler() })))
    let running = Task { try await group.run() }
    while try await store.count() == 0 { await Task.yield() }
    await group.triggerGracefulShutdown()
    try await running.value
    let again = try disk.openStore()
    #expect(try await again.value(forKey: "last") == [1])
    try await again.close()
    #expect(list.isClosedWithoutFailure)
  }

  @Test func aPoisonedStoreEndsTheGroup() async throws {
    let fault = DiskFault.ofFirstSync
    let store = try SimulatedDisk().openStore(faults: [fault])
    let group = ServiceGroup(
      configuration: .init(
        services: [
          .init(service: StoreService(store)), .init(service: Writer(store: store, .sync)),
        ],
        logger: Logger(label: "group", factory: { _ in SwiftLogNoOpLogHandler() })))
    let error = await #expect(throws: StoreError.self) { try await group.run() }
    #expect(error?.code == .poisoned)
  }

  @Test func figuresAreRecordedWhileTheServiceRuns() async throws {
    let backend = TestMetrics()
    let store = Store.inMemory()
    let service = StoreService(
      store, recordingIn: StoreMetrics(storeName: "s", factory: backend), every: .milliseconds(1))
    let running = Task { try await service.run() }
    let meter = try backend.expectMeter("moraine_keys", [("store", "s")])
    try await store.set([1], forKey: "a")
    while meter.lastValue != 1 { await Task.yield() }
    running.cancel()
    try await running.value
    #expect(meter.lastValue == 1, "the figures are not those of a closed store")
  }
}
