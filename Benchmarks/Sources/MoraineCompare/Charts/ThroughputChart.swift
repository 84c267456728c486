import Foundation

/// A chart of Moraine's speed as a multiple of each peer's: bars from a line at 1, to the right
/// where Moraine is faster, to the left where the peer is.
struct ThroughputChart {
  struct Bar {
    let engine: String
    let ratio: Double
  }

  struct Band {
    let row: Report.Row
    let bars: [Bar]
    /// The peer closest to Moraine, or furthest ahead of it.
    let best: String

    /// Every band has space for two lines of text.
    var height: Double { max(Double(bars.count) * barHeight, 32) + 14 }
  }

  static let barHeight = 10.0
  static let area = (left: 240.0, right: Card.width - 74)
  /// Limit of the bars. A bar with a larger ratio ends here, and its ratio is written.
  static let furthest = 1e4

  let report: Report
  let title: String
  let bands: [Band]
  let scale: Scale

  /// Returns the picture of the rows with these names, or nil when no peer has a figure in any of
  /// them.
  static func draw(
    _ report: Report, rows names: [String],
    title: String = "Moraine's throughput, compared with each peer's"
  ) -> String? {
    ThroughputChart(report, rows: names, title: title)?.picture
  }

  private init?(_ report: Report, rows names: [String], title: String) {
    self.report = report
    self.title = title
    let peers = report.engines.map(\.name).filter(Report.isPeer)
    bands = names.compactMap { name in
      guard let row = report.rows.first(where: { $0.name == name }),
        let best = report.bestPeer(row)
      else { return nil }
      let bars = peers.compactMap { peer in
        report.ratio(to: peer, row).map { Bar(engine: peer, ratio: $0) }
      }
      return Band(row: row, bars: bars, best: best.engine)
    }
    let shown = bands.flatMap { $0.bars.map(\.ratio) }.map {
      min(max($0, 1 / ThroughputChart.furthest), ThroughputChart.furthest)
    }
    // 0.5 and 2 make both sides of the line visible in every picture.
    guard !bands.isEmpty,
      let scale = Scale.logarithmic(
        covering: shown + [0.5, 2],
        pixels: (ThroughputChart.area.left, ThroughputChart.area.right))
    else { return nil }
    self.scale = scale
  }

  private var picture: String {
    let key = keyPlaces
    let top = (key.last?.y ?? Card.top) + 48
    let bottom = top + bands.map(\.height).reduce(0, +)
    var svg = Card.draw(
      title,
      meaning:
        "Times as fast as the peer in the same row, on a logarithmic axis; the number is that "
        + "of the best peer",
      data: bands.map(words), height: bottom + 36, of: report)
    for (engine, x, y) in key {
      svg.rectangle(
        x: x, y: y - 10, width: 11, height: 11, class: "bar \(Palette.name(engine.name))",
        rounded: 2)
      svg.text(Card.shortened(engine.title, to: 22), x: x + 17, y: y)
    }
    drawField(&svg, top: top, bottom: bottom)
    var y = top
    for band in bands {
      draw(band, top: y, &svg)
      y += band.height
    }
    return svg.text
  }

  /// The places of the colour key, in the order of the bars, on as many lines as needed.
  private var keyPlaces: [(engine: Report.Engine, x: Double, y: Double)] {
    let shown = Set(bands.flatMap { $0.bars.map(\.engine) })
    var place = (x: Card.margin, y: Card.top + 8)
    return report.engines.filter { shown.contains($0.name) }.map { engine in
      let width = 17 + Card.textWidth(Card.shortened(engine.title, to: 22))
      if place.x + width > Card.width - Card.margin { place = (Card.margin, place.y + 20) }
      defer { place.x += width + 20 }
      return (engine, place.x, place.y)
    }
  }

  /// Describes a band in words, for readers who cannot see it.
  private func words(_ band: Band) -> String {
    let ratios = band.bars.map { bar in
      let title = report.engines.first { $0.name == bar.engine }?.title ?? bar.engine
      return "\(title) \(FigureText.ratio(bar.ratio))"
    }
    return "\(band.row.name): \(ratios.joined(separator: ", "))"
  }
}
