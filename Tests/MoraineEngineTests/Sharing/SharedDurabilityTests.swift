import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// What one process makes durable includes the writes of other processes.
@Suite(.timeLimit(.minutes(10))) struct SharedDurabilityTests {
  /// Writes without a sync in one opening, runs the body with another one, and lets the power fail.
  ///
  /// - Returns: the value that has survived.
  private static func survivor(
    _ mode: Store.Configuration.IOMode, of body: (Store) async throws -> Void
  ) async throws -> [UInt8]? {
    let configuration = Store.Configuration.shared(mode)
    let disk = SimulatedDisk()
    let writer = try disk.openStore(configuration: configuration)
    let other = try disk.openStore(configuration: configuration)
    try await writer.set([1], forKey: "first", durability: .sync)
    try await other.set([2], forKey: "second", durability: .sync)
    try await writer.set([3], forKey: "k")
    #expect(try await value(on: disk.image(.nothing), configuration) == nil)
    try await body(other)
    let survivor = try await value(on: disk.image(.nothing), configuration)
    try await writer.close()
    try await other.close()
    return survivor
  }

  private static func value(
    on image: DiskImage, _ configuration: Store.Configuration
  ) async throws -> [UInt8]? {
    let store = try SimulatedDisk(image).openStore(configuration: configuration)
    let value = try await store.value(forKey: "k")
    try await store.close()
    return value
  }

  @Test(arguments: SharedStoreTests.modes)
  func durableReadingMakesWritesOfOthersDurable(mode: Store.Configuration.IOMode) async throws {
    let survivor = try await Self.survivor(mode) { other in
      let read = try await other.transaction(durability: .sync) { try $0.value(forKey: "k") }
      #expect(read == [3])
    }
    #expect(survivor == [3])
  }

  @Test(arguments: SharedStoreTests.modes)
  func syncMakesWritesOfOthersDurable(mode: Store.Configuration.IOMode) async throws {
    let survivor = try await Self.survivor(mode) { other in
      let sequence = try await other.sync()
      #expect(sequence.rawValue == 3)
    }
    #expect(survivor == [3])
  }

  /// A process that only reads makes nothing durable, and must not say that it has.
  @Test(arguments: SharedStoreTests.modes)
  func syncOfAReaderCountsNoWriteThatNoProcessHasSynced(
    mode: Store.Configuration.IOMode
  ) async throws {
    let disk = SimulatedDisk()
    let configuration = Store.Configuration.shared(mode)
    let writer = try disk.openStore(configuration: configuration)
    try await writer.set([3], forKey: "k")
    var readOnly = configuration
    readOnly.isReadOnly = true
    let reader = try disk.openStore(configuration: readOnly)
    #expect(try await reader.value(forKey: "k") == [3])
    let sequence = try await reader.sync()
    #expect(sequence.rawValue == 0)
    #expect(try await Self.value(on: disk.image(.nothing), configuration) == nil)
    try await reader.close()
    try await writer.close()
  }
}
