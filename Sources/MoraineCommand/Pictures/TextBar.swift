/// Bars of characters, for terminals.
enum TextBar {
  /// Returns a bar of full and partial blocks, padded with spaces.
  ///
  /// - Parameters:
  ///   - share: the length; a share of the width, 0 to 1.
  ///   - width: number of columns.
  static func bar(_ share: Double, width: Int) -> String {
    let eighths = Int((min(max(share, 0), 1) * Double(width * 8)).rounded())
    var text = String(repeating: "█", count: eighths / 8)
    if eighths % 8 > 0 { text.append(["▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8 - 1]) }
    // Something that exists is never drawn as nothing.
    if eighths == 0, share > 0 { text = "▏" }
    return text + String(repeating: " ", count: width - text.count)
  }

  /// Returns a row of columns, the higher the greater their shares are, 0 to 1.
  ///
  /// - Parameter width: the largest number of columns. When there are more shares, each column has
  ///   the mean of its neighbours.
  static func columns(_ shares: [Double], width: Int) -> String {
    let count = min(shares.count, width)
    return (0..<count).reduce(into: "") { text, column in
      let part = shares[(column * shares.count / count)..<((column + 1) * shares.count / count)]
      let mean = part.reduce(0, +) / Double(part.count)
      let level = Int((min(max(mean, 0), 1) * 8).rounded())
      text += ["▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"][level]
    }
  }
}
