import Foundation

/// The time that one kind of operation took.
struct BenchRow {
  let name: String
  let operationCount: Int
  let elapsed: Duration

  private var seconds: Double { max(elapsed / .seconds(1), 1e-9) }
  private var microseconds: Double { seconds * 1_000_000 / Double(max(operationCount, 1)) }
  private var rate: Double { Double(operationCount) / seconds }

  static let head = line("row", "µs", "per second")

  var text: String {
    let precise = microseconds < 10 ? "%.3f" : microseconds < 1000 ? "%.1f" : "%.0f"
    return Self.line(
      name, String(format: precise, microseconds), Units.number(UInt64(rate.rounded())))
  }

  var json: String {
    let object: JSONObject = [
      "row": name, "microseconds": microseconds, "operationsPerSecond": rate,
      "operationCount": operationCount,
    ]
    return object.json
  }

  private static func line(_ name: String, _ time: String, _ rate: String) -> String {
    let pad = { (text: String, width: Int) in
      String(repeating: " ", count: max(0, width - text.count))
    }
    return name + pad(name, 22) + pad(time, 10) + time + pad(rate, 14) + rate
  }
}
