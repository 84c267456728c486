import Foundation

/// A chart of one series of the report, with one line for each engine.
struct CurveChart {
  /// A series and how to draw it.
  struct Subject {
    /// The chart's name in the report.
    let chart: String
    let title: String
    let meaning: String
    let xTitle: String
    let yTitle: String
    /// Whether both axes are logarithmic; otherwise none is.
    let isLogarithmic: Bool
    let xText: @Sendable (Double) -> String
    let yText: @Sendable (Double) -> String
  }

  /// Returns the picture, or nil where the report has no such series.
  static func draw(_ report: Report, _ subject: Subject) -> String? {
    let series = report.series.filter { $0.chart == subject.chart }
    let curves = report.engines.compactMap { engine -> LinePlot.Curve? in
      guard let own = series.first(where: { $0.engine == engine.name }) else { return nil }
      let points = points(own, subject)
      guard let last = points.last else { return nil }
      return LinePlot.Curve(
        engine: engine.name, title: engine.title, points: points, last: subject.yText(last.y))
    }
    let all = curves.flatMap(\.points)
    guard !all.isEmpty, let x = scale(all.map(\.x), LinePlot.across, subject),
      let y = scale(ordinary(curves, subject), LinePlot.upwards, subject)
    else { return nil }
    let plot = LinePlot(
      x: .init(scale: x, title: subject.xTitle, text: subject.xText),
      y: .init(scale: y, title: subject.yTitle, text: subject.yText), curves: curves)
    var svg = Card.draw(
      subject.title, meaning: subject.meaning,
      data: curves.map { curve in
        let parts = curve.points.map { "\(subject.yText($0.y)) at \(subject.xText($0.x))" }
        return "\(curve.title): \(parts.joined(separator: ", "))"
      }, height: LinePlot.height, of: report)
    plot.draw(into: &svg)
    return svg.text
  }

  /// Returns the points that can be drawn, from left to right.
  private static func points(
    _ series: Report.Series, _ subject: Subject
  ) -> [(x: Double, y: Double)] {
    zip(series.x, series.y).map { (x: $0, y: $1) }
      .filter { $0.x.isFinite && $0.y.isFinite }
      .filter { !subject.isLogarithmic || ($0.x > 0 && $0.y > 0) }
      .sorted { $0.x < $1.x }
  }

  /// Returns the values that the y axis covers. On a linear axis, a line three times as high as
  /// most would make all others flat. Such a line leaves the picture, and its value is written at
  /// the edge.
  private static func ordinary(_ curves: [LinePlot.Curve], _ subject: Subject) -> [Double] {
    let values = curves.flatMap { $0.points.map(\.y) }
    if subject.isLogarithmic { return values }
    let peaks = curves.compactMap { $0.points.map(\.y).max() }.sorted()
    let own = curves.filter { Report.isMoraine($0.engine) }.flatMap { $0.points.map(\.y) }
    let limit = max(3 * peaks[(peaks.count - 1) / 2], own.max() ?? 0)
    return values.filter { $0 <= limit }
  }

  private static func scale(
    _ values: [Double], _ pixels: (low: Double, high: Double), _ subject: Subject
  ) -> Scale? {
    subject.isLogarithmic
      ? .logarithmic(covering: values, pixels: pixels) : .linear(covering: values, pixels: pixels)
  }
}

extension CurveChart.Subject {
  static let open = CurveChart.Subject(
    chart: "open", title: "Opening a store",
    meaning: "Time until a store is open and the first get is answered, lower is better "
      + "(logarithmic axes)",
    xTitle: "keys in the store", yTitle: "time to open", isLogarithmic: true,
    xText: FigureText.count, yText: { FigureText.duration(nanoseconds: $0 * 1e6) })

  static let space = CurveChart.Subject(
    chart: "space", title: "Disk space while everything is overwritten again and again",
    meaning: "Bytes on disk for each byte of live keys and values, lower is better",
    xTitle: "rounds of as many overwrites as there are keys", yTitle: "bytes on disk per live byte",
    isLogarithmic: false, xText: FigureText.short, yText: FigureText.short)
}
