import Foundation
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

@Suite struct ReadOnlyTests {
  private var readOnly: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.isReadOnly = true
    return configuration
  }

  /// Regression: a reader of a copy without `LOCK` created that file.
  @Test func aCopyWithoutItsLockFileIsReadAndNothingIsCreated() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    try FileManager.default.removeItem(at: directory.store.appendingPathComponent("LOCK"))
    let names = try directory.names()
    try await withStore(at: directory.path, configuration: readOnly) { store in
      let value = try await store.value(forKey: "a")
      #expect(value == [1])
    }
    #expect(try directory.names() == names)
  }

  /// Regression: the reader reported everything that it read as durable, though it had synced
  /// nothing.
  @Test func readerAfterAKillTrustsOnlySealedSegments() async throws {
    let disk = SimulatedDisk()
    let store = try Store(on: disk, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    let image = SimulatedDisk(disk.image(.everything))
    try await store.close()
    let reader = try Store(on: image, at: "store", configuration: readOnly)
    #expect(try await reader.value(forKey: "a") == [1])
    #expect(reader.durableSequence == .none)
    try await reader.close()
    let closed = try Store(on: disk, at: "store", configuration: readOnly)
    #expect(closed.durableSequence == SequenceNumber(rawValue: 1))
    try await closed.close()
  }

  /// Regression: the reader waited for a sync that no process would ever perform.
  @Test(.timeLimit(.minutes(10))) func syncOfAReaderAfterAnUncleanStopEnds() async throws {
    let disk = SimulatedDisk()
    let store = try Store(on: disk, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    let image = SimulatedDisk(disk.image(.everything))
    try await store.close()
    let reader = try Store(on: image, at: "store", configuration: readOnly)
    try await reader.sync()
    try await reader.close()
  }

  /// Regression: opening a store that begins empty as read-only was a trap.
  @Test func storeInMemoryIsWritableDespiteReadOnly() async throws {
    let store = Store.inMemory(configuration: readOnly)
    try await store.set([1], forKey: "a")
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  /// Regression: the error of closing replaced the error of the body.
  @Test func withStoreThrowsTheErrorOfItsBody() async throws {
    struct Stop: Error {}
    let directory = try TestDirectory()
    await #expect(throws: Stop.self) {
      try await withStore(at: directory.path) { store in
        try await store.set([1], forKey: "a")
        try FileManager.default.moveItem(
          at: directory.store, to: directory.url.appendingPathComponent("elsewhere"))
        throw Stop()
      }
    }
  }
}
