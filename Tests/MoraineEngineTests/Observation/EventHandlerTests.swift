import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import Testing

/// The promises of ``Store/Configuration/onEvent``.
@Suite(.timeLimit(.minutes(10))) struct EventHandlerTests {
  @Test func onlyCloseWaitsForAHandler() async throws {
    let gate = Gate()
    let log = EventLog()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000)
    configuration.onEvent = { event in
      gate.pass()
      log.add(event)
    }
    let store = Store.inMemory(configuration: configuration)
    for number in 0..<300 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"), durability: .sync)
    }
    try await store.compact()
    await gate.arrival()
    #expect(log.events.isEmpty, "the handler still holds the first event")
    gate.open()
    try await store.close()
    #expect(log.names.first == "opened")
    #expect(log.names.last == "closed")
    #expect(log.count("sealed") > 4)
  }

  private final class Flag: Sendable {
    let isSet = Atomic(false)
  }

  @Test func closeReturnsAfterTheHandlerOfClosed() async throws {
    let gate = Gate()
    var configuration = Store.Configuration.testing()
    configuration.onEvent = { event in
      if event.name == "closed" { gate.pass() }
    }
    let store = Store.inMemory(configuration: configuration)
    let flag = Flag()
    let closing = Task {
      try await store.close()
      flag.isSet.store(true, ordering: .sequentiallyConsistent)
    }
    await gate.arrival()
    // If close did not wait for the handler, it would return while the handler is held.
    for _ in 0..<10_000 { await Task.yield() }
    let hasReturned = flag.isSet.load(ordering: .sequentiallyConsistent)
    #expect(!hasReturned)
    gate.open()
    try await closing.value
  }

  @Test func closingTwiceIsReportedOnce() async throws {
    let log = EventLog()
    let store = Store.inMemory(configuration: Store.Configuration.testing().telling(log))
    async let first: Void = store.close()
    async let second: Void = store.close()
    _ = try await (first, second)
    try await store.close()
    await log.arrival(of: "closed")
    #expect(log.names == ["closed"])
  }

  @Test func addedHandlerRunsAfterTheExistingHandler() async throws {
    let calls = Mutex<[String]>([])
    var configuration = Store.Configuration.testing()
    configuration.addEventHandler { event in calls.withLock { $0.append("first \(event.name)") } }
    configuration.addEventHandler { event in calls.withLock { $0.append("second \(event.name)") } }
    try await Store.inMemory(configuration: configuration).close()
    #expect(calls.withLock { $0 } == ["first closed", "second closed"])
  }

  /// A handler may start a task that uses the store.
  @Test func aTaskOfTheHandlerUsesTheStore() async throws {
    let (counts, continuation) = AsyncStream.makeStream(of: Int.self)
    let box = Mutex<Store?>(nil)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000)
    configuration.compaction = .manual
    configuration.onEvent = { event in
      guard case .segmentSealed = event, let store = box.withLock({ $0 }) else { return }
      Task { continuation.yield(try await store.count()) }
    }
    let store = Store.inMemory(configuration: configuration)
    box.withLock { $0 = store }
    for number in 0..<200 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    for await count in counts {
      #expect(count > 0)
      break
    }
    box.withLock { $0 = nil }
    try await store.close()
  }
}
