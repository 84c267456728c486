import Foundation

/// A chart of the times of single operations of one row: most operations at the left, the slowest
/// at the right.
///
/// Percentiles are evenly spaced, and not to scale, because the last thousandth matters most.
enum LatencyChart {
  /// Returns the picture, or nil where no engine has latencies of this row.
  static func draw(_ report: Report, row: String, title: String) -> String? {
    let latencies = report.latencies.filter { $0.row == row }
    let percentiles = Set(latencies.flatMap(points).map(\.percentile)).sorted()
    let curves = report.engines.compactMap { engine -> LinePlot.Curve? in
      guard let latency = latencies.first(where: { $0.engine == engine.name }) else { return nil }
      let points = points(latency).map { point in
        (x: Double(percentiles.firstIndex(of: point.percentile) ?? 0), y: point.nanoseconds)
      }
      guard let last = points.last else { return nil }
      return LinePlot.Curve(
        engine: engine.name, title: engine.title, points: points,
        last: FigureText.duration(nanoseconds: last.y))
    }
    let times = curves.flatMap { $0.points.map(\.y) }
    guard let y = Scale.logarithmic(covering: times, pixels: LinePlot.upwards) else { return nil }
    let x = Scale.steps(percentiles.count, pixels: LinePlot.across)
    let names = percentiles.map(name)
    let plot = LinePlot(
      x: .init(scale: x, title: "percentile of the operations") { names[Int($0)] },
      y: .init(scale: y, title: "time of one operation") { FigureText.duration(nanoseconds: $0) },
      curves: curves)
    let durability = report.rows.first { $0.name.hasPrefix(row) }?.durability.map {
      ", durability \($0)"
    }
    var svg = Card.draw(
      title,
      meaning: "Time of single operations by percentile, lower is better (logarithmic axis)"
        + (durability ?? ""),
      data: curves.map { curve in
        let parts = curve.points.map {
          "\(names[Int($0.x)]) \(FigureText.duration(nanoseconds: $0.y))"
        }
        return "\(curve.title): \(parts.joined(separator: ", "))"
      }, height: LinePlot.height, of: report)
    plot.draw(into: &svg)
    return svg.text
  }

  /// Returns the points that can be drawn: an axis of powers of ten has no zero.
  private static func points(
    _ latency: Report.Latency
  ) -> [(percentile: Double, nanoseconds: Double)] {
    zip(latency.percentiles, latency.nanoseconds)
      .map { (percentile: $0, nanoseconds: $1) }
      .filter { $0.percentile.isFinite && $0.nanoseconds.isFinite && $0.nanoseconds > 0 }
      .sorted { $0.percentile < $1.percentile }
  }

  private static func name(_ percentile: Double) -> String {
    percentile >= 100 ? "max" : "p\(SVG.number(percentile))"
  }
}
