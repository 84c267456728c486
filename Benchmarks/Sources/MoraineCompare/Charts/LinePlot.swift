import Foundation

/// Lines with dots in a field of two axes. The engine's name is at the end of its line, so the
/// reader needs no key and need not match colours.
struct LinePlot {
  struct Curve {
    let engine: String
    let title: String
    let points: [(x: Double, y: Double)]
    /// The last point in words.
    let last: String

    /// Returns the pieces of the line that are within the axis. A line that leaves the picture ends
    /// at the edge and does not follow it, because the edge is not its value.
    func pieces(below high: Double) -> [[(x: Double, y: Double)]] {
      var pieces: [[(x: Double, y: Double)]] = [[]]
      for (index, point) in points.enumerated() {
        if index > 0, (points[index - 1].y > high) != (point.y > high) {
          let before = points[index - 1]
          let share = (high - before.y) / (point.y - before.y)
          if before.y > high { pieces.append([]) }
          pieces[pieces.count - 1].append((before.x + share * (point.x - before.x), high))
        }
        if point.y <= high { pieces[pieces.count - 1].append(point) }
      }
      return pieces.filter { !$0.isEmpty }
    }
  }

  /// An axis, its quantity, and the format of its ticks.
  struct Axis {
    let scale: Scale
    let title: String
    let text: (Double) -> String
  }

  static let height = 470.0
  /// The field. The names are at its right.
  static let area = (left: 84.0, right: Card.width - 212, top: Card.top + 34, bottom: height - 62)
  static let across = (low: area.left + 10, high: area.right - 4)
  static let upwards = (low: area.bottom, high: area.top)

  let x: Axis
  let y: Axis
  /// The curves, in the order of the report's engines.
  let curves: [Curve]

  func draw(into svg: inout SVG) {
    drawAxes(&svg)
    drawNames(&svg)
    // Draw Moraine's curves last, so that no other curve covers them.
    for curve in curves.filter({ !Report.isMoraine($0.engine) }) { draw(curve, &svg) }
    for curve in curves.filter({ Report.isMoraine($0.engine) }) { draw(curve, &svg) }
  }

  private func drawAxes(_ svg: inout SVG) {
    let area = LinePlot.area
    for tick in y.scale.ticks {
      let place = y.scale.position(tick)
      svg.line(from: (area.left, place), to: (area.right, place), class: "grid")
      svg.text(y.text(tick), x: area.left - 8, y: place + 4, anchor: .end, class: "soft small")
    }
    for tick in x.scale.ticks {
      let place = x.scale.position(tick)
      svg.line(from: (place, area.bottom), to: (place, area.bottom + 5), class: "grid")
      svg.text(
        x.text(tick), x: place, y: area.bottom + 21, anchor: .middle, class: "soft small")
    }
    svg.text(y.title, x: Card.margin, y: area.top - 16, class: "small bold")
    svg.text(
      x.title, x: (area.left + area.right) / 2, y: area.bottom + 44, anchor: .middle,
      class: "small bold")
  }

  private func draw(_ curve: Curve, _ svg: inout SVG) {
    let isMoraine = Report.isMoraine(curve.engine)
    let isVariant = isMoraine && curve.engine != "moraine"
    let name = Palette.name(curve.engine)
    for piece in curve.pieces(below: y.scale.high) where piece.count > 1 {
      let looks = (isMoraine && !isVariant ? " thick" : "") + (isVariant ? " dash" : "")
      svg.polyline(piece.map(place), class: "\(name) line\(looks)")
    }
    // Where points are close together, small dots keep the lines visible.
    let radius = curve.points.count > 8 ? 3.0 : 4.0
    for point in curve.points where point.y <= y.scale.high {
      svg.circle(
        at: place(point), radius: isMoraine ? radius + 1 : radius, class: "\(name) dot")
    }
  }

  private func place(_ point: (x: Double, y: Double)) -> (x: Double, y: Double) {
    (x.scale.position(point.x), y.scale.position(point.y))
  }

  private func drawNames(_ svg: inout SVG) {
    let left = LinePlot.area.right + 22
    let above = LinePlot.area.top - 10
    let ends = curves.compactMap { curve in
      (curve.pieces(below: y.scale.high).last?.last ?? curve.points.last).map {
        (curve: curve, x: place($0).x, y: place($0).y, wish: isCut(curve) ? above : place($0).y)
      }
    }.sorted { ($0.wish, $0.curve.engine) < ($1.wish, $1.curve.engine) }
    let places = LinePlot.apart(
      ends.map(\.wish), gap: 18, within: above...(LinePlot.area.bottom + 4))
    for (end, place) in zip(ends, places) {
      // The lead of a line that has left the picture runs above the field, where it shows no value.
      let way = isCut(end.curve) ? [(x: end.x + 8, y: above)] : []
      svg.polyline(
        [(end.x, end.y)] + way + [(LinePlot.area.right + 6, place), (left - 5, place)],
        class: "\(Palette.name(end.curve.engine)) lead")
      svg.text(
        Card.shortened(end.curve.title, to: 17), x: left, y: place + 4.5,
        class: Report.isMoraine(end.curve.engine) ? "bold" : "",
        aside: end.curve.last + (isCut(end.curve) ? " ↑" : ""))
    }
  }

  private func isCut(_ curve: Curve) -> Bool {
    curve.points.last.map { $0.y > y.scale.high } ?? false
  }

  /// Moves ascending places apart, as little as the gap needs. Places near the end move upwards.
  static func apart(_ places: [Double], gap: Double, within: ClosedRange<Double>) -> [Double] {
    var moved: [Double] = []
    for place in places {
      moved.append(max(place, moved.last.map { $0 + gap } ?? within.lowerBound))
    }
    var limit = within.upperBound
    for index in moved.indices.reversed() {
      moved[index] = min(moved[index], limit)
      limit = moved[index] - gap
    }
    return moved
  }
}
