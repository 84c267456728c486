import MoraineEngine
import MoraineTesting
import Testing

/// P1, D: found by the laboratory. A durable delete found nothing to delete, and returned while the
/// earlier delete was not durable yet: the key could reappear.
@Suite struct AbsentKeyTests {
  @Test(arguments: [true, false])
  func aDurableDeleteOfAnAbsentKeyMakesItsAbsenceDurable(inBatch: Bool) async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    try await store.removeValue(forKey: "a")
    if inBatch {
      try await store.write(durability: .sync) { try $0.removeValue(forKey: "a") }
    } else {
      #expect(try await store.removeValue(forKey: "a", durability: .sync) == nil)
    }
    let after = try SimulatedDisk(disk.image(.nothing)).openStore(configuration: .testing())
    #expect(try await after.value(forKey: "a") == nil)
  }

  /// Regression: a number that a failed operation has used up never becomes durable, and a wait for
  /// it never ended.
  @Test(.timeLimit(.minutes(10)))
  func batchThatFindsNothingDoesNotWaitForAFailedOperation() async throws {
    var configuration = Store.Configuration.testing()
    configuration.ioMode = .positional
    let fault = DiskFault(.ioError, on: [.write], file: "0000000001.segment", occurrence: 3)
    let store = try SimulatedDisk().openStore(configuration: configuration, faults: [fault])
    try await store.set([1], forKey: "a")
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    try await store.write(durability: .sync) { try $0.removeValue(forKey: "b") }
    try await store.close()
  }
}
