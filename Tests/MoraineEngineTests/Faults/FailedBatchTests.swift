import MoraineEngine
import MoraineTesting
import Testing

/// A batch whose records are written one by one: one of these writes fails.
@Suite struct FailedBatchTests {
  @Test(arguments: [1, 2, 3])
  func aBatchThatFailsInItsMiddleLeavesNothing(failing: Int) async throws {
    let configuration = Store.Configuration.testing(ioMode: .positional)
    let disk = SimulatedDisk()
    // The header and the record of "before" are written first.
    let store = try disk.openStore(
      configuration: configuration,
      faults: [
        DiskFault(.ioError, on: [.write], file: "0000000001.segment", occurrence: 2 + failing)
      ])
    try await store.set([1], forKey: "before")
    await #expect(throws: StoreError.self) {
      try await store.write { batch in
        for number in 0..<3 { try batch.set([2], forKey: Key("\(number)")) }
      }
    }
    #expect(try await store.contents() == ["before": [1]])
    try await store.set([3], forKey: "after")
    let expected: [Key: [UInt8]] = ["before": [1], "after": [3]]
    let killed = try SimulatedDisk(disk.image(.everything)).openStore(configuration: configuration)
    #expect(try await killed.contents() == expected)
    try await killed.close()
    try await store.close()
    let again = try disk.openStore(configuration: configuration)
    #expect(try await again.contents() == expected)
    try await again.close()
  }
}
