import Foundation

/// The common parts of all pictures: the background, the title, and below it the meaning, the
/// machine and the date.
enum Card {
  static let width = 900.0
  /// Top edge of the picture itself.
  static let top = 96.0
  /// Left edge of all content.
  static let margin = 24.0

  /// - Parameters:
  ///   - meaning: the meaning of the figures, and their unit.
  ///   - data: the contents of the picture, one engine or row after the other.
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

  /// Returns the beginning of a line that fits into the card.
  private static func fitting(_ text: String) -> String {
    shortened(text, to: Int((width - 2 * margin) / 6.4))
  }

  /// Estimates the width of a text. The reader's font is unknown.
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
