import Foundation

/// The time that one kind of operation took.
struct BenchRow {
  let name: String
  let operationCount: Int
  let elapsed: Duration

  private var seconds: Double { max(elapsed / .seconds(1), 1e-9) }
  private var microseconds: Double { seconds * 1_000_000 / Double(max(operationCount, 1)) }
  private var rate: Double { Double(operationCount) / seconds }

  static let head = line("row", "µs", "per second") + "  four columns more: ten times as long"

  /// The shortest and the longest time that a bar shows, as powers of ten of a microsecond.
  private static let decades = (first: -1.0, last: 5.0)

  /// The length of the row's bar, 0 to 1: the logarithm of the time of one operation.
  private var share: Double {
    let (first, last) = Self.decades
    return min(max((log10(microseconds) - first) / (last - first), 0.01), 1)
  }

  private var time: String {
    let precise = microseconds < 10 ? "%.3f" : microseconds < 1000 ? "%.1f" : "%.0f"
    return String(format: precise, microseconds)
  }

  var text: String {
    let bar = TextBar.bar(share, width: 24).prefix { $0 != " " }
    return Self.line(name, time, Units.number(UInt64(rate.rounded()))) + "  " + bar
  }

  /// Adds the row to a drawing.
  func draw(_ drawing: inout Drawing) {
    drawing.row(
      name, length: share, note: "\(time) µs, \(Units.number(UInt64(rate.rounded()))) a second",
      parts: [Drawing.Part(length: 1)])
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
