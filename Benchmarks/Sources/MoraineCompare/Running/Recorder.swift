import BenchmarkSupport
import Foundation
import Histogram

/// The figures that one process measures of one engine.
struct Recorder: Codable {
  var engine: String
  var figures: [Report.Figure] = []
  var latencies: [Report.Latency] = []
  var series: [Report.Series] = []

  init(engine: String) { self.engine = engine }

  /// - Parameter other: an engine that is measured as well, such as snapshots in addition to the
  ///   actor.
  mutating func add(_ row: String, _ value: Double, engine other: String? = nil) {
    figures.append(Report.Figure(engine: other ?? engine, row: row, values: [value]))
  }

  /// Measures the body. The row is the microseconds of one of its `operations`.
  mutating func time(
    _ row: String, _ operations: Int, engine other: String? = nil,
    _ body: () async throws -> Void
  ) async throws {
    let elapsed = try await ContinuousClock().measure(body)
    add(row, elapsed.milliseconds * 1000 / Double(max(1, operations)), engine: other)
  }

  /// The percentiles of the table. The charts have more.
  static let shownPercentiles = [
    (name: "p50", value: 50.0), (name: "p99", value: 99), (name: "p99.9", value: 99.9),
    (name: "p99.99", value: 99.99), (name: "max", value: 100),
  ]

  /// Adds the percentiles of a row to the charts, and some of them to the table.
  mutating func addLatency(
    _ row: String, _ histogram: Histogram<UInt64>, engine other: String? = nil
  ) {
    for percentile in Self.shownPercentiles {
      let microseconds = Double(histogram.valueAtPercentile(percentile.value)) / 1000
      add("\(row), \(percentile.name)", microseconds, engine: other)
    }
    let percentiles: [Double] = [50, 90, 99, 99.9, 99.99, 100]
    latencies.append(
      Report.Latency(
        engine: other ?? engine, row: row, percentiles: percentiles,
        nanoseconds: percentiles.map { Double(histogram.valueAtPercentile($0)) }))
  }

  mutating func add(_ chart: String, x: Double, y: Double) {
    if let place = series.firstIndex(where: { $0.chart == chart }) {
      series[place].x.append(x)
      series[place].y.append(y)
    } else {
      series.append(Report.Series(chart: chart, engine: engine, x: [x], y: [y]))
    }
  }
}
