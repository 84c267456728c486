import Foundation

/// The text of a picture, written element by element.
///
/// The same calls give the same bytes, one element to a line, so that git shows what has changed.
struct SVG {

  let width: Double
  let height: Double
  private var lines: [String] = []

  /// - Parameters:
  ///   - title: text that a screen reader reads first.
  ///   - description: the picture in words, for readers who cannot see it.
  ///   - style: CSS, which is not escaped.
  init(width: Double, height: Double, title: String, description: String, style: String) {
    self.width = width
    self.height = height
    let size = "\(SVG.number(width)) \(SVG.number(height))"
    lines = [
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"\(SVG.number(width))\""
        + " height=\"\(SVG.number(height))\" viewBox=\"0 0 \(size)\" role=\"img\""
        + " aria-labelledby=\"title desc\">",
      "<title id=\"title\">\(SVG.escaped(title))</title>",
      "<desc id=\"desc\">\(SVG.escaped(description))</desc>",
      "<style>\n\(style)\n</style>",
    ]
  }

  /// The whole picture.
  var text: String { (lines + ["</svg>", ""]).joined(separator: "\n") }

  mutating func rectangle(
    x: Double, y: Double, width: Double, height: Double, class name: String,
    rounded radius: Double = 0
  ) {
    let rounding = radius > 0 ? " rx=\"\(SVG.number(radius))\"" : ""
    lines.append(
      "<rect" + SVG.attributes([("x", x), ("y", y), ("width", width), ("height", height)])
        + "\(rounding) class=\"\(SVG.escaped(name))\"/>")
  }

  mutating func line(from: (x: Double, y: Double), to: (x: Double, y: Double), class name: String) {
    lines.append(
      "<line" + SVG.attributes([("x1", from.x), ("y1", from.y), ("x2", to.x), ("y2", to.y)])
        + " class=\"\(SVG.escaped(name))\"/>")
  }

  mutating func circle(at centre: (x: Double, y: Double), radius: Double, class name: String) {
    lines.append(
      "<circle" + SVG.attributes([("cx", centre.x), ("cy", centre.y), ("r", radius)])
        + " class=\"\(SVG.escaped(name))\"/>")
  }

  mutating func polyline(_ points: [(x: Double, y: Double)], class name: String) {
    let places = points.map { "\(SVG.number($0.x)),\(SVG.number($0.y))" }
    lines.append(
      "<polyline points=\"\(places.joined(separator: " "))\" class=\"\(SVG.escaped(name))\"/>")
  }

  enum Anchor: String { case start, middle, end }

  /// - Parameter aside: softer text after it, on the same line.
  mutating func text(
    _ text: String, x: Double, y: Double, anchor: Anchor = .start, class name: String = "",
    aside: String = ""
  ) {
    let side = aside.isEmpty ? "" : "<tspan class=\"soft\" dx=\"6\">\(SVG.escaped(aside))</tspan>"
    let anchoring = anchor == .start ? "" : " text-anchor=\"\(anchor.rawValue)\""
    let classing = name.isEmpty ? "" : " class=\"\(SVG.escaped(name))\""
    lines.append(
      "<text" + SVG.attributes([("x", x), ("y", y)]) + anchoring + classing
        + ">\(SVG.escaped(text))\(side)</text>")
  }
}

extension SVG {
  /// Formats a number with at most two decimals, without trailing zeros, and never as `-0`: fewer
  /// bytes, smaller diffs.
  static func number(_ value: Double) -> String {
    guard value.isFinite else { return "0" }
    var text = String(format: "%.2f", value)
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text == "-0" ? "0" : text
  }

  /// Escapes text for elements and attributes. Omits characters that XML does not allow.
  static func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "\t", "\n", "\r": escaped += " "
      case _ where scalar.value < 0x20 || scalar.value == 0xFFFE || scalar.value == 0xFFFF: break
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

  private static func attributes(_ values: [(name: String, value: Double)]) -> String {
    values.map { " \($0.name)=\"\(number($0.value))\"" }.joined()
  }
}
