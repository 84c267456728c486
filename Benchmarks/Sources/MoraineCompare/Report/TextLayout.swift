/// Formats cells and lists as lines.
enum TextLayout {
  static let columnCount = 140

  /// Aligns columns: words to the left, figures to the right, each column as narrow as possible.
  /// Heads that are wider than their figures take two lines.
  ///
  /// - Parameter named: number of columns from the left that contain words.
  static func aligned(_ rows: [[String]], heads: [String], named: Int) -> [String] {
    let halves = heads.map(halves)
    let heads = heads.isEmpty ? [] : [halves.map(\.0), halves.map(\.1)]
    let columns = (0..<(rows.map(\.count).max() ?? 0)).map { column in
      padded(
        rows.map { column < $0.count ? $0[column] : "" },
        heads: heads.map { $0[column] }, isText: column < named)
    }
    let gap = columns.map { ($0.first?.count ?? 0) + 2 }.reduce(0, +) > columnCount ? " " : "  "
    return (0..<(heads.count + rows.count)).map { row in
      trimmed(columns.map { $0[row] }.joined(separator: gap))
    }.filter { !$0.isEmpty }
  }

  /// Returns a column with cells of equal width. The marks after figures have their own places, so
  /// that the digits are aligned.
  private static func padded(_ cells: [String], heads: [String], isText: Bool) -> [String] {
    let markCount = isText ? 0 : cells.map { marks($0) }.max() ?? 0
    let cells = isText ? cells : cells.map { blanks(markCount - marks($0), after: $0) }
    let width = (heads + cells).map(\.count).max() ?? 0
    return (heads + cells).map { cell in
      isText
        ? blanks(width - cell.count, after: cell) : blanks(width - cell.count, after: "") + cell
    }
  }

  private static func marks(_ cell: String) -> Int {
    cell.reversed().prefix { $0 == "*" || $0 == "~" }.count
  }

  private static func blanks(_ count: Int, after text: String) -> String {
    text + String(repeating: " ", count: max(count, 0))
  }

  /// Splits a head such as `Moraine / best peer` into two lines. A short head is on the second
  /// line, next to the figures.
  private static func halves(_ head: String) -> (String, String) {
    let middle = head.index(head.startIndex, offsetBy: head.count / 2)
    guard head.count > 10,
      let space = head[middle...].firstIndex(of: " ") ?? head[..<middle].lastIndex(of: " ")
    else { return ("", head) }
    return (String(head[..<space]), String(head[head.index(after: space)...]))
  }

  /// Returns names with their texts next to them, on as many lines as needed.
  static func listed(_ items: [(name: String, text: String)]) -> [String] {
    let width = min(items.map(\.name.count).max() ?? 0, 44)
    return items.flatMap { name, text in
      wrapped(text, to: columnCount - width - 4).enumerated().map { number, line in
        let head = number == 0 ? name : ""
        return trimmed("  \(blanks(width - head.count, after: head))  \(line)")
      }
    }
  }

  static func wrapped(_ text: String, to width: Int) -> [String] {
    var lines: [String] = [""]
    for word in text.split(whereSeparator: \.isWhitespace) {
      let line = lines[lines.count - 1]
      if line.isEmpty {
        lines[lines.count - 1] = String(word)
      } else if line.count + 1 + word.count <= width {
        lines[lines.count - 1] += " \(word)"
      } else {
        lines.append(String(word))
      }
    }
    return lines
  }

  private static func trimmed(_ line: String) -> String {
    line.lastIndex { $0 != " " }.map { String(line[...$0]) } ?? ""
  }
}

extension TextLayout {
  static func markdownRow(_ cells: [String]) -> String {
    "| " + cells.joined(separator: " | ") + " |"
  }

  /// Escapes text so that no character has a meaning in Markdown or HTML.
  static func marked(_ text: String) -> String {
    var marked = ""
    for character in text {
      switch character {
      case "*", "~", "|", "_", "`", "\\", "[", "]": marked += "\\\(character)"
      case "<": marked += "&lt;"
      case "\n", "\r\n": marked += " "
      default: marked.append(character)
      }
    }
    return marked
  }
}
