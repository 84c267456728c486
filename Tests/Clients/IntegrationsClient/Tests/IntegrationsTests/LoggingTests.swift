import InMemoryLogging
import Logging
import Moraine
import MoraineTesting
import Synchronization
import Testing

/// Tests of the trait `Logging`.
@Suite(.timeLimit(.minutes(5))) struct LoggingTests {
  private let handler = InMemoryLogHandler()

  private func logger(_ level: Logger.Level = .debug) -> Logger {
    var handler = handler
    handler.logLevel = level
    return Logger(label: "store", factory: { [handler] _ in handler })
  }

  private func entries(_ message: String) -> [InMemoryLogHandler.Entry] {
    handler.entries.filter { $0.message.description == message }
  }

  @Test func eventsOfARunAreLogged() async throws {
    let disk = SimulatedDisk()
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4000
    configuration.compaction = .manual
    configuration.log(to: logger())
    let store = try disk.openStore(configuration: configuration)
    for number in 0..<300 { try await store.set([UInt8](0..<50), forKey: Key("\(number % 50)")) }
    let report = try await store.compact()
    try await store.close()
    let opened = try #require(handler.entries.first)
    #expect(opened.message == "store opened" && opened.level == .info)
    #expect(opened.metadata["records"] == "0")
    let sealed = entries("segment sealed")
    #expect(sealed.first?.level == .debug)
    #expect(sealed.first?.metadata["segment"] == "1")
    let compacted = entries("segments compacted")
    let read = compacted.compactMap { $0.metadata["read_bytes"] }.compactMap { UInt64("\($0)") }
    #expect(read.reduce(0, +) == report.inputBytes && !read.isEmpty)
    let closed = try #require(handler.entries.last)
    #expect(closed.message == "store closed" && closed.level == .info)
  }

  @Test func theLevelOfTheLoggerCounts() async throws {
    var configuration = Store.Configuration()
    configuration.log(to: logger(.notice))
    let store = Store.inMemory(configuration: configuration)
    try await store.set([1], forKey: "a")
    try await store.close()
    #expect(handler.entries.isEmpty)
  }

  @Test func poisonIsLoggedAsCriticalWithItsCause() async throws {
    var configuration = Store.Configuration()
    configuration.log(to: logger(.notice))
    let fault = DiskFault.ofFirstSync
    let store = try SimulatedDisk().openStore(configuration: configuration, faults: [fault])
    await #expect(throws: StoreError.self) {
      try await store.set([1], forKey: "a", durability: .sync)
    }
    try await store.close()
    let entry = try #require(handler.entries.first)
    #expect(handler.entries.count == 1)
    #expect(entry.level == .critical && entry.message == "store stopped writing")
    #expect(entry.metadata["error_code"] == "poisoned")
    #expect(entry.metadata["errno"] == "5")
  }

  /// Bytes of a torn write are logged as a notice.
  @Test func openingAfterACrashIsANotice() async throws {
    let disk = SimulatedDisk()
    let first = try disk.openStore()
    try await first.set([1], forKey: "a", durability: .sync)
    var configuration = Store.Configuration()
    configuration.log(to: logger())
    let crashed = SimulatedDisk(disk.image(.nothing))
    let store = try crashed.openStore(configuration: configuration)
    try await store.close()
    let entry = try #require(handler.entries.first)
    #expect(entry.level == .notice)
    #expect(entry.message == "store opened after an unclean stop")
    #expect(entry.metadata["records"] == "1")
    try await first.close()
  }

  private struct Account: Codable, Identifiable, Sendable {
    var id: String
    var email: String
    var level = "secret-level"
  }

  private enum Level: String, Codable, Sendable { case low, high }

  private struct Graded: Codable, Identifiable, Sendable {
    var id: String
    var email: String
    var level: Level
  }

  /// Saves two accounts with the same email, begins to build an index over them, and waits until
  /// that has failed.
  ///
  /// - Returns: what was logged, as text, and the metadata of the failure.
  private func logOfAFailedIndex<Model: Codable & Identifiable & Sendable>(
    _ index: ModelIndex<Model>
  ) async throws -> (text: String, failure: Logger.Metadata) where Model.ID == String {
    let (failures, continuation) = AsyncStream.makeStream(of: Void.self)
    var configuration = Store.Configuration()
    configuration.onEvent = { event in
      if case .indexBuildingFailed = event { continuation.yield() }
    }
    configuration.log(to: logger())
    let store = Store.inMemory(configuration: configuration)
    let plain = try LocalRepository<Account>(in: store, named: "accounts")
    try await plain.save(Account(id: "secret-a", email: "secret-c"))
    try await plain.save(Account(id: "secret-b", email: "secret-c"))
    let indexed = try LocalRepository<Model>(in: store, named: "accounts", indexes: [index])
    #expect(try await indexed.find(by: "absent") == nil)
    var arrivals = failures.makeAsyncIterator()
    _ = await arrivals.next()
    // The store waits for the handlers of its events.
    try await store.close()
    let text = handler.entries.map { "\($0.message) \($0.metadata)" }.joined(separator: "\n")
    return (text, try #require(entries("index incomplete").first).metadata)
  }

  @Test func logOfAnIndexOverEqualValuesNamesNoKeyAndNoValue() async throws {
    let (text, failure) = try await logOfAFailedIndex(
      ModelIndex<Account>.unique("email", on: \.email))
    #expect(!text.contains("secret-"), "\(text)")
    #expect(failure["error_code"] == "notUnique")
    #expect(failure["index"] == "email")
    #expect(failure["keyspace"] == "accounts")
  }

  @Test func logOfAModelThatCannotBeDecodedNamesNoKeyAndNoValue() async throws {
    let (text, failure) = try await logOfAFailedIndex(
      ModelIndex<Graded>.index("email", on: \.email))
    #expect(!text.contains("secret-"), "\(text)")
    #expect(failure["error_code"] == "decodingFailed")
  }

  @Test func loggingKeepsAnExistingEventHandler() async throws {
    let count = Atomic<Int>(0)
    var configuration = Store.Configuration()
    configuration.onEvent = { _ in count.add(1, ordering: .relaxed) }
    configuration.log(to: logger())
    try await Store.inMemory(configuration: configuration).close()
    #expect(count.load(ordering: .relaxed) == 1)
    #expect(handler.entries.map(\.message) == ["store closed"])
  }
}
