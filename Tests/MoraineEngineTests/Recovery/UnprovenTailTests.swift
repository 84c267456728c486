import MoraineEngine
import MoraineTesting
import Testing

/// P4: recovery does not trust the page cache for what nothing has proved durable.
@Suite struct UnprovenTailTests {
  @Test(arguments: [Configuration.IOMode.mapped, .positional])
  func whatAFailedSyncDroppedIsWrittenAgain(mode: Configuration.IOMode) async throws {
    let configuration = Configuration.testing(ioMode: mode)
    let disk = SimulatedDisk()
    let store = try disk.openStore(
      configuration: configuration,
      faults: [DiskFault(.dropsUnsynced, on: [.sync], file: "0000000001.segment", occurrence: 2)])
    try await store.set([1], forKey: "a")
    await #expect(throws: StoreError.self) { try await store.sync() }
    try await store.close()
    let next = try disk.openStore(configuration: configuration)
    #expect(try await next.value(forKey: "a") == [1], "the cache still shows it")
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: configuration)
    #expect(try await after.value(forKey: "a") == [1], "what was served stays")
    try await after.close()
    try await next.close()
  }
}
