import MoraineEngine
import MoraineTesting
import Testing

/// Faults on a simulated disk, as a user's own tests request them.
@Suite struct DiskFaultTests {
  private func code(
    _ fault: DiskFault, _ body: (Store) async throws(StoreError) -> Void
  ) async throws -> StoreError.Code? {
    var configuration = Store.Configuration()
    configuration.ioMode = .positional
    configuration.durability = .none
    let disk = SimulatedDisk()
    try await disk.openStore(configuration: configuration).close()
    let store = try disk.openStore(configuration: configuration, faults: [fault])
    do throws(StoreError) { try await body(store) } catch { return error.code }
    return nil
  }

  private func put(_ store: Store, _ count: Int = 1) async throws(StoreError) {
    for number in 0..<count { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
  }

  @Test(arguments: [
    (DiskFault.Effect.ioError, StoreError.Code.io), (.noSpace, .noSpace),
    (.tooManyOpenFiles, .limitExceeded),
    (.interrupted, .io), (.short(lengthBytes: 5), .io),
  ])
  func eachEffectReachesTheStore(
    _ effect: DiskFault.Effect, _ expected: StoreError.Code
  )
    async throws
  {
    let fault = DiskFault(effect, on: [.write], isPermanent: true)
    #expect(try await code(fault) { store throws(StoreError) in try await put(store) } == expected)
  }

  @Test func faultStrikesOnlyTheNthCall() async throws {
    let fault = DiskFault(.ioError, on: [.write], file: "0000000001.segment", occurrence: 4)
    // The first write is the header, and each put is another.
    #expect(
      try await code(fault) { store throws(StoreError) in try await put(store, 2) } == nil)
    let found = try await code(fault) { store throws(StoreError) in
      try await put(store, 2)
      do throws(StoreError) {
        try await put(store)
      } catch {
        try await put(store)
        throw error
      }
    }
    #expect(found == .io)
  }

  /// P6: the failed sync dropped the bytes that it should have written, and later syncs do not make
  /// up for it.
  @Test func aSyncThatDropsIsNeverForgotten() async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(faults: [
      DiskFault(.dropsUnsynced, on: [.sync], file: "0000000001.segment", occurrence: 2)
    ])
    try await store.set([1], forKey: "a", durability: Durability.none)
    await #expect(throws: StoreError.self) {
      try await store.set([2], forKey: "b", durability: .sync)
    }
    await #expect(throws: StoreError.self) { try await store.sync() }
    let next = try SimulatedDisk(disk.image(.everything)).openStore()
    #expect(try await next.value(forKey: "a") == [1], "the cache still holds the bytes")
  }
}
