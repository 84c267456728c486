import Foundation

/// What all pictures have in common: the background, the title, and under it what is shown, on
/// which machine and when.
enum Card {
  static let width = 900.0
  /// Where the picture itself begins.
  static let top = 96.0
  /// Left of which nothing stands.
  static let margin = 24.0

  /// - Parameters:
  ///   - meaning: what is shown, and in which unit.
  ///   - data: what the picture shows, one engine or row after the other.
  static func draw(
    _ title: String, meaning: String, data: [String], height: Double, of report: Report
  ) -> SVG {
    let origin = "\(report.machineText), \(report.date.prefix(10))"
    var svg = SVG(
      width: width, height: height, title: title,
      description: ([meaning, origin] + data).joined(separator: ". ") + ".",
      style: Palette(engines: report.engines.map(\.name)).style)
    svg.rectangle(
      x: 0.5, y: 0.5, width: width - 1, height: height - 1, class: "frame", rounded: 8)
    svg.text(title, x: margin, y: 36, class: "title")
    svg.text(fitting(meaning), x: margin, y: 57)
    svg.text(fitting(origin), x: margin, y: 75, class: "soft small")
    return svg
  }

  /// As much of a line as the card has room for.
  private static func fitting(_ text: String) -> String {
    shortened(text, to: Int((width - 2 * margin) / 6.4))
  }

  /// About how wide a text is: nobody knows the reader's font.
  static func textWidth(_ text: String) -> Double {
    text.map { character in
      switch character {
      case "i", "j", "l", "t", "f", "r", "I", ".", ",", "'", " ": 4.2
      case "m", "w", "M", "W": 11.3
      case _ where character.isUppercase: 9
      default: 7.4
      }
    }.reduce(0, +)
  }

  static func shortened(_ text: String, to count: Int) -> String {
    text.count <= count ? text : text.prefix(count - 1) + "…"
  }
}
