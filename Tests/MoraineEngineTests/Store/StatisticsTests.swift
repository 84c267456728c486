import Testing

@testable import MoraineEngine

@Suite struct StatisticsTests {
  @Test func storeOfGarbageHasALargeFiniteAmplification() async throws {
    var configuration = Store.Configuration()
    configuration.compaction = .manual
    let store = Store.inMemory(configuration: configuration)
    #expect(try await store.statistics().spaceAmplification == 1, "the store is empty")
    for number in 0..<100 { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    for number in 0..<100 { try await store.removeValue(forKey: Key("\(number)")) }
    let statistics = try await store.statistics()
    #expect(statistics.spaceAmplification > 100, "\(statistics)")
    #expect(statistics.spaceAmplification.isFinite, "JSON has no infinite numbers")
    try await store.close()
  }
}
