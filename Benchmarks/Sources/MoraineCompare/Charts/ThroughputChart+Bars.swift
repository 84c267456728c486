extension ThroughputChart {
  /// Draws the field of the bars: a band for every second row, the axis, and the line at 1.
  func drawField(_ svg: inout SVG, top: Double, bottom: Double) {
    var y = top
    for (index, band) in bands.enumerated() {
      if index.isMultiple(of: 2) {
        svg.rectangle(x: 1, y: y, width: Card.width - 2, height: band.height, class: "band")
      }
      y += band.height
    }
    for tick in scale.ticks {
      let x = scale.position(tick)
      svg.line(from: (x, top), to: (x, bottom), class: tick == 1 ? "one" : "grid")
      svg.text(
        FigureText.axisRatio(tick), x: x, y: bottom + 20, anchor: .middle,
        class: tick == 1 ? "bold small" : "soft small")
    }
    let one = scale.position(1)
    svg.text("Moraine is faster →", x: one + 8, y: top - 10, class: "soft small")
    svg.text("← peer is faster", x: one - 8, y: top - 10, anchor: .end, class: "soft small")
  }

  func draw(_ band: Band, top: Double, _ svg: inout SVG) {
    let height = ThroughputChart.barHeight
    let middle = top + band.height / 2
    svg.text(
      Card.shortened(band.row.name, to: 26), x: Card.margin, y: middle - 3, class: "bold")
    svg.text(detail(band.row), x: Card.margin, y: middle + 14, class: "soft small")
    let first = middle - Double(band.bars.count) * height / 2
    let one = scale.position(1)
    for (index, bar) in band.bars.enumerated() {
      let end = scale.position(bar.ratio)
      // A bar is at least two pixels wide.
      let width = max(abs(end - one), 2)
      svg.rectangle(
        x: bar.ratio < 1 ? one - width : one, y: first + Double(index) * height + 0.5,
        width: width, height: height - 1, class: "bar \(Palette.name(bar.engine))")
    }
    // Draw the number after all bars: a longer bar next to it would cover it.
    for (index, bar) in band.bars.enumerated() {
      let isCut = max(bar.ratio, 1 / bar.ratio) > ThroughputChart.furthest
      guard bar.engine == band.best || isCut else { continue }
      let isAhead = bar.ratio >= 1
      svg.text(
        FigureText.ratio(bar.ratio), x: scale.position(bar.ratio) + (isAhead ? 6 : -6),
        y: first + Double(index) * height + 9.2, anchor: isAhead ? .start : .end,
        class: bar.engine == band.best ? "bold small halo" : "soft small halo")
    }
  }

  /// Returns Moraine's own figure, and the durability of the row.
  private func detail(_ row: Report.Row) -> String {
    let own = FigureText.figure(report.ours(row.name) ?? 0)
    let durability = row.durability.map { ", durability \($0)" } ?? ""
    return Card.shortened("Moraine \(own) \(row.unit)\(durability)", to: 35)
  }
}
