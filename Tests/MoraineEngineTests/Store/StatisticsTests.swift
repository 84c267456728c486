import Foundation
import MoraineFormat
import Testing

@testable import MoraineEngine

@Suite struct StatisticsTests {
  @Test func storeOfGarbageHasALargeFiniteAmplification() async throws {
    var configuration = Configuration()
    configuration.compaction = .manual
    let store = Store.inMemory(configuration: configuration)
    #expect(await store.statistics.spaceAmplification == 1, "the store is empty")
    for number in 0..<100 { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    for number in 0..<100 { try await store.removeValue(forKey: Key("\(number)")) }
    let statistics = await store.statistics
    #expect(statistics.spaceAmplification > 100, "\(statistics)")
    // The figure is not infinite either: JSON has no infinite numbers.
    _ = try JSONSerialization.jsonObject(with: Data(statistics.json.utf8))
    try await store.close()
  }

  /// A reader that was just opened would otherwise always report 1.
  @Test func writeAmplificationWithoutWritesIsNull() {
    var statistics = Statistics()
    #expect(statistics.json.contains("\"writeAmplification\":null"))
    statistics.appendedBytes = 100
    statistics.compactionBytes = 50
    #expect(statistics.json.contains("\"writeAmplification\":1.5"))
  }

  /// For people: each figure on its own line, with the name that it has in the JSON.
  @Test func textAndJSONHoldTheSameFigures() throws {
    var statistics = Statistics()
    statistics.count = 3
    statistics.appendedBytes = 100
    statistics.digest = StateDigest(low: 1, high: 2)
    let lines = statistics.description.split(separator: "\n").map { $0.split(separator: ": ") }
    let object = try #require(
      try JSONSerialization.jsonObject(with: Data(statistics.json.utf8)) as? [String: Any])
    #expect(Set(lines.map { String($0[0]) }) == Set(object.keys))
    #expect(lines.contains(["count", "3"]))
    #expect(lines.contains(["isPoisoned", "false"]))
    #expect(lines.contains(["digest", Substring("\(statistics.digest)")]))
  }
}
