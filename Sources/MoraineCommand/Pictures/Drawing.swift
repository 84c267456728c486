import Foundation
import SystemPackage

/// An SVG drawing of rows, each with a label, a bar and a note. Its colors follow the light or dark
/// mode of the program that shows it.
struct Drawing {
  /// The colors of parts of a bar.
  enum Color: String {
    case strong, second, pale
  }

  /// A part of a bar.
  struct Part {
    /// Where the part begins and how long it is: shares of the bar's length, 0 to 1.
    var start = 0.0
    var length: Double
    var color = Color.strong
    /// Opacity, 0 to 1; nil for an opaque part.
    var opacity: Double?
  }

  private static let (left, barWidth, right) = (190.0, 700.0, 290.0)
  private static let (rowHeight, barHeight) = (22.0, 16.0)

  private var bottom = 12.0
  private var body = ""

  /// Adds a line of text above the rows that follow.
  mutating func heading(_ text: String) {
    bottom += 12
    place(text, x: Self.left, y: bottom + 10, style: "text")
    bottom += 22
  }

  /// Adds a row.
  ///
  /// - Parameter length: length of the bar; a share of the longest possible one, 0 to 1.
  mutating func row(_ label: String, length: Double, note: String, parts: [Part]) {
    let width = max(1, Self.barWidth * length)
    let middle = bottom + Self.barHeight - 4
    place(label, x: Self.left - 8, y: middle, style: "note", anchor: "end")
    rectangle(
      x: Self.left, y: bottom, width: width, height: Self.barHeight, Part(length: 1, color: .pale))
    for part in parts {
      rectangle(
        x: Self.left + width * part.start, y: bottom, width: width * part.length,
        height: Self.barHeight, part)
    }
    place(note, x: Self.left + width + 8, y: middle, style: "note")
    bottom += Self.rowHeight
  }

  /// Adds a grid whose cells are the darker the greater their numbers are.
  ///
  /// - Parameter cells: the columns, each from its top to its bottom.
  mutating func grid(_ label: String, _ cells: [[Int]], note: String) {
    let greatest = Double(cells.joined().max() ?? 0)
    let rows = cells.first?.count ?? 0
    let (width, height) = (Self.barWidth / Double(max(cells.count, 1)), 8.0)
    let whole = height * Double(rows)
    place(label, x: Self.left - 8, y: bottom + 12, style: "note", anchor: "end")
    rectangle(
      x: Self.left, y: bottom, width: Self.barWidth, height: whole, Part(length: 1, color: .pale))
    for (column, counts) in cells.enumerated() {
      for (row, count) in counts.enumerated() where count > 0 {
        // The root, so that a cell with few entries can be seen.
        let part = Part(length: 1, opacity: (Double(count) / greatest).squareRoot())
        rectangle(
          x: Self.left + width * Double(column), y: bottom + height * Double(row), width: width,
          height: height, part)
      }
    }
    place(note, x: Self.left + Self.barWidth + 8, y: bottom + 12, style: "note")
    bottom += whole + 6
  }

  /// The drawing as a file.
  ///
  /// - Parameter title: the name of the drawing, for readers who cannot see it.
  func svg(title: String) -> String {
    let (width, height) = (Int(Self.left + Self.barWidth + Self.right), Int(bottom) + 14)
    return """
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(width) \(height)" \
      width="\(width)" height="\(height)" font-family="system-ui, sans-serif" font-size="12" \
      shape-rendering="crispEdges" role="img">
      <title>\(Self.escaped(title))</title>
      <style>
      .paper{fill:#fff}.text{fill:#1b1f24}.note{fill:#57606a}
      .strong{fill:#0b5a8a}.second{fill:#b3541e}.pale{fill:#e7ecf1}
      @media (prefers-color-scheme:dark){
      .paper{fill:#14181d}.text{fill:#e6e9ed}.note{fill:#9aa4af}
      .strong{fill:#5fb2e6}.second{fill:#e8935a}.pale{fill:#2a323b}}
      </style>
      <rect width="100%" height="100%" class="paper"/>
      \(body)</svg>

      """
  }

  private mutating func place(
    _ text: String, x: Double, y: Double, style: String, anchor: String = "start"
  ) {
    body += """
      <text x="\(Self.number(x))" y="\(Self.number(y))" text-anchor="\(anchor)" \
      class="\(style)">\(Self.escaped(text))</text>

      """
  }

  private mutating func rectangle(
    x: Double, y: Double, width: Double, height: Double, _ part: Part
  ) {
    let opacity = part.opacity.map { " fill-opacity=\"\(Self.number($0))\"" } ?? ""
    body += """
      <rect x="\(Self.number(x))" y="\(Self.number(y))" width="\(Self.number(width))" \
      height="\(Self.number(height))" class="\(part.color.rawValue)"\(opacity)/>

      """
  }

  private static func number(_ value: Double) -> String { String(format: "%.2f", value) }

  /// Returns the text as the content of an XML element. The caller's names may contain anything.
  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in Text.printable(text.utf8).unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      // Not characters of XML, though they are of UTF-8.
      case "\u{FFFE}", "\u{FFFF}": escaped += "\u{FFFD}"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}

extension Drawing {
  /// Writes the drawing into a file, which is replaced.
  func write(to path: String, title: String) throws {
    do {
      try Data(svg(title: title).utf8).write(to: URL(fileURLWithPath: path))
    } catch {
      throw Failure("write \(path)", error)
    }
  }

  /// Throws if the file cannot be written. Commands call this before long work.
  static func checkWritable(_ path: String) throws {
    let url = URL(fileURLWithPath: path)
    let (folder, files) = (url.deletingLastPathComponent().path, FileManager.default)
    var isDirectory: ObjCBool = false
    guard files.fileExists(atPath: folder, isDirectory: &isDirectory), isDirectory.boolValue else {
      throw Failure.usage("cannot write \(path): there is no directory \(folder)")
    }
    let exists = files.fileExists(atPath: path, isDirectory: &isDirectory)
    guard !exists || !isDirectory.boolValue else {
      throw Failure.usage("cannot write \(path): it is a directory")
    }
    guard files.isWritableFile(atPath: exists ? path : folder) else {
      throw Failure("write \(path)", Errno.permissionDenied)
    }
  }

  /// Returns a name of at most 24 characters for the label of a row.
  static func label(_ name: String) -> String {
    name.count <= 24 ? name : name.prefix(23) + "…"
  }
}
