import Foundation
import Moraine

/// A drawing of a store: a bar for each segment, dark where its records are live.
struct LivenessPicture {
  /// The number of parts into which the drawing divides each segment.
  static let partCount = 96

  private static let (barWidth, rowHeight, barHeight) = (768.0, 22.0, 16.0)
  private static let (left, right, top) = (120.0, 190.0, 44.0)

  let segments: [SegmentLiveness]

  var svg: String {
    let width = Self.left + Self.barWidth + Self.right
    let height = Self.top + Self.rowHeight * Double(max(segments.count, 1)) + 20
    var text = """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(width)) \(Int(height))" \
      width="\(Int(width))" height="\(Int(height))" font-family="system-ui, sans-serif" \
      font-size="12" shape-rendering="crispEdges" role="img">
      <title>Segments of a Moraine store</title>
      <rect width="100%" height="100%" fill="#ffffff"/>
      <text x="\(Int(Self.left))" y="24" fill="#1b1f24">\(title)</text>

      """
    let longest = Double(segments.map(\.segment.lengthBytes).max() ?? 1)
    for (row, segment) in segments.enumerated() { text += bar(segment, row, longest) }
    return text + "</svg>\n"
  }

  private var title: String {
    let disk = segments.reduce(0) { $0 + $1.segment.lengthBytes }
    let live = segments.reduce(0) { $0 + $1.segment.liveBytes }
    let share = disk == 0 ? 100 : live * 100 / disk
    let count = Units.counted(segments.count, "segment")
    return "\(count), \(Units.bytes(disk)), \(share) % of it live. "
      + "Dark: live. Light: garbage."
  }

  private func bar(_ liveness: SegmentLiveness, _ row: Int, _ longest: Double) -> String {
    let segment = liveness.segment
    let y = Self.top + Self.rowHeight * Double(row)
    let width = max(1, Self.barWidth * Double(segment.lengthBytes) / max(longest, 1))
    let middle = number(y + Self.barHeight - 4)
    let kind = segment.isCompacted ? "compacted" : segment.isSealed ? "" : "open"
    var text = """
      <text x="\(number(Self.left - 8))" y="\(middle)" text-anchor="end" fill="#57606a">\
      \(segment.number) \(kind)</text>
      <rect x="\(number(Self.left))" y="\(number(y))" width="\(number(width))" \
      height="\(number(Self.barHeight))" fill="#e7ecf1"/>

      """
    let part = width / Double(liveness.shares.count)
    for (index, share) in liveness.shares.enumerated() where share > 0.005 {
      text += """
        <rect x="\(number(Self.left + part * Double(index)))" y="\(number(y))" \
        width="\(number(part))" height="\(number(Self.barHeight))" fill="#0b5a8a" \
        fill-opacity="\(number(share))"/>

        """
    }
    let share = Int((segment.liveRatio * 100).rounded())
    return text + """
      <text x="\(number(Self.left + width + 8))" y="\(middle)" fill="#57606a">\
      \(Units.bytes(segment.lengthBytes)), \(share) % live</text>

      """
  }

  private func number(_ value: Double) -> String { String(format: "%.2f", value) }
}
