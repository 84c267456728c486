import Foundation

/// The format of figures in the table and in the charts.
enum FigureText {
  /// Returns a figure with three significant digits: `0.469`, `12.3`, `1,234`.
  static func figure(_ value: Double) -> String {
    guard value.isFinite else { return "–" }
    let size = abs(value)
    if size == 0 { return "0" }
    if size < 0.00095 || size >= 1e15 { return String(format: "%.1e", value) }
    // At these bounds rounding adds a digit before the point.
    let places = size < 0.9995 ? 3 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0
    return grouped(String(format: "%.\(places)f", value))
  }

  /// Returns a ratio with two significant digits: `2.4×` is ahead, `0.80×` is slower, `1.02×` about
  /// the same.
  static func ratio(_ value: Double) -> String {
    guard value.isFinite, value > 0 else { return "–" }
    if value < 0.005 { return "<0.01×" }
    if value >= 1e15 { return String(format: "%.0e×", value) }
    let places = value < 1.095 ? 2 : value < 9.95 ? 1 : 0
    return grouped(String(format: "%.\(places)f", value)) + "×"
  }

  /// Returns a ratio as an axis shows it: `0.001×`, `0.5×`, `10×`.
  static func axisRatio(_ value: Double) -> String {
    (value < 0.01 ? String(format: "%g", value) : short(value)) + "×"
  }

  /// Returns nanoseconds in a suitable unit: `350 ns`, `1.2 µs`, `15 ms`.
  static func duration(nanoseconds: Double) -> String {
    guard nanoseconds.isFinite else { return "–" }
    let units = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1)]
    // 999.6 ns becomes 1 µs, and not 1,000 ns.
    let (unit, size) = units.first { abs(nanoseconds) >= $0.1 * 0.9995 } ?? ("ns", 1)
    return short(nanoseconds / size) + " " + unit
  }

  /// Returns a count for an axis: `500`, `20k`, `1M`.
  static func count(_ value: Double) -> String {
    guard value.isFinite else { return "–" }
    let units = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1)]
    let (unit, size) = units.first { abs(value) >= $0.1 * 0.9995 } ?? ("", 1)
    return short(value / size) + unit
  }

  /// Returns at most two digits after the point, without trailing zeros.
  static func short(_ value: Double) -> String {
    guard value.isFinite else { return "–" }
    if abs(value) >= 1e15 { return String(format: "%.0e", value) }
    if abs(value) >= 99.95 { return grouped(String(format: "%.0f", value)) }
    var text = String(format: abs(value) < 9.995 ? "%.2f" : "%.1f", value)
    while text.hasSuffix("0") { text.removeLast() }
    if text.hasSuffix(".") { text.removeLast() }
    return text == "-0" ? "0" : text
  }

  /// Inserts commas between thousands.
  private static func grouped(_ digits: String) -> String {
    let whole = digits.prefix { $0 != "." }
    let sign = whole.prefix { $0 == "-" }
    let number = whole.dropFirst(sign.count)
    var grouped = ""
    for (index, digit) in number.enumerated() {
      if index > 0, (number.count - index).isMultiple(of: 3) { grouped.append(",") }
      grouped.append(digit)
    }
    return sign + grouped + digits.dropFirst(whole.count)
  }
}
