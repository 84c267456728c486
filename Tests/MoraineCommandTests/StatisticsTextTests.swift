import Foundation
import MoraineFormat
import Testing

@testable import MoraineCommand
@testable import MoraineEngine

/// The statistics as `moraine stats` prints them.
@Suite struct StatisticsTextTests {
  /// A reader that was just opened would otherwise always report 1.
  @Test func writeAmplificationWithoutWritesIsNull() {
    var statistics = Store.Statistics()
    #expect(statistics.json.contains("\"writeAmplification\":null"))
    statistics.appendedBytes = 100
    statistics.compactionBytes = 50
    #expect(statistics.json.contains("\"writeAmplification\":1.5"))
  }

  /// For people: each figure on its own line, with the name that it has in the JSON.
  @Test func textAndJSONHoldTheSameFigures() throws {
    var statistics = Store.Statistics()
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
