import Foundation

/// The measured rows, in the order of the first run.
struct Table {
  private var names: [String] = []
  private var figures: [String: [Double]] = [:]
  private var units: [String: String] = [:]

  mutating func add(_ name: String, _ figure: Double, unit: String) {
    if figures[name] == nil { names.append(name) }
    figures[name, default: []].append(figure)
    units[name] = unit
  }

  /// Measures the body. The row is the time of one of its `operations`.
  mutating func time(
    _ name: String, _ operations: Int, _ body: () async throws -> Void
  ) async throws {
    let elapsed = try await ContinuousClock().measure(body)
    let (seconds, attoseconds) = elapsed.components
    let microseconds = Double(seconds) * 1e6 + Double(attoseconds) / 1e12
    add(name, microseconds / Double(operations), unit: "µs")
  }

  func print() {
    for name in names {
      let sorted = figures[name, default: []].sorted()
      let figure = String(format: "%12.3f", sorted[sorted.count / 2])
      Swift.print(
        "\(name.padding(toLength: 18, withPad: " ", startingAt: 0))\(figure) \(units[name] ?? "")")
    }
  }
}
