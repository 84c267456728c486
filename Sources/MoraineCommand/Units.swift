import Foundation

/// Figures for people to read.
enum Units {
  /// A byte count in decimal units: `999 B`, `1.5 kB`, `64.0 MB`.
  static func bytes(_ count: UInt64) -> String {
    if count < 1000 { return "\(count) B" }
    var value = Double(count) / 1000
    for unit in ["kB", "MB", "GB"] {
      // Not 1000.0 of this unit, which 999,950 would round to.
      if value < 999.95 { return String(format: "%.1f ", value) + unit }
      value /= 1000
    }
    return String(format: "%.1f TB", value)
  }

  /// `1.37`, `0.05`.
  static func ratio(_ value: Double) -> String { String(format: "%.2f", value) }

  /// A number with a comma between thousands.
  static func number(_ number: UInt64) -> String {
    var text = ""
    for (index, digit) in String(number).reversed().enumerated() {
      if index > 0, index.isMultiple(of: 3) { text.append(",") }
      text.append(digit)
    }
    return String(text.reversed())
  }

  /// `1 key`, `1,200 keys`.
  static func counted(_ count: Int, _ noun: String) -> String {
    number(UInt64(count)) + " " + noun + (count == 1 ? "" : "s")
  }

  /// `0:07`, `12:30`, `3:05:00`.
  static func clock(_ seconds: Double) -> String {
    let whole = Int(min(max(seconds, 0), 359_999).rounded(.up))
    let (hours, minutes) = (whole / 3600, whole / 60 % 60)
    if hours > 0 { return String(format: "%d:%02d:%02d", hours, minutes, whole % 60) }
    return String(format: "%d:%02d", minutes, whole % 60)
  }
}
