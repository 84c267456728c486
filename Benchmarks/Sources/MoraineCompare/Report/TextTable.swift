import Foundation

/// The report as text: a table for each group, and below it all that a reader needs to assess the
/// figures.
extension Report {
  /// The text for a terminal of 140 columns.
  var text: String {
    var lines = ["Moraine beside other engines", ""]
    lines += TextLayout.aligned(
      [["date", date], ["machine", machineText], ["again", command]], heads: [], named: 2)
    for table in tables(\.name) {
      lines += ["", "\(table.group)  (\(roundsText(table.rows)))"]
      lines += TextLayout.aligned(table.cells, heads: table.heads, named: table.named)
    }
    lines += [""] + TextLayout.wrapped(legend, to: TextLayout.columnCount)
    lines += ["", "What the rows do"] + TextLayout.listed(rows.map { ($0.name, $0.meaning) })
    lines += ["", "Engines"] + TextLayout.listed(measured)
    if !missing.isEmpty { lines += ["", "Not measured"] + TextLayout.listed(missing) }
    if !failed.isEmpty { lines += ["", "Failed"] + TextLayout.listed(failed) }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The text for a web page.
  var markdown: String {
    var lines = [
      "\(TextLayout.marked(machineText)); \(TextLayout.marked(date)).", "", "    \(command)",
    ]
    for table in tables(\.title) {
      lines += ["", "**\(TextLayout.marked(table.group))** (\(roundsText(table.rows)))", ""]
      lines.append(TextLayout.markdownRow(table.heads.map(TextLayout.marked)))
      lines.append(
        "|" + table.heads.indices.map { $0 < table.named ? "---|" : "--:|" }.joined())
      lines += table.cells.map { TextLayout.markdownRow($0.map(TextLayout.marked)) }
    }
    lines += ["", TextLayout.marked(legend) + "."]
    let lists = [
      ("What the rows do", rows.map { ($0.name, $0.meaning) }), ("The engines", measured),
      ("Not measured", missing), ("Failed", failed),
    ]
    for (title, items) in lists where !items.isEmpty {
      lines += ["", "\(title):", ""]
      lines += items.map { "- **\(TextLayout.marked($0.0))**: \(TextLayout.marked($0.1))" }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}

extension Report {
  /// The rows of a group as cells.
  struct GroupTable {
    let group: String
    let rows: [Row]
    var heads: [String] = []
    var cells: [[String]] = []
    /// Number of columns from the left that contain words.
    var named = 2
  }

  /// Returns the groups in the order of their first rows.
  private func tables(_ title: KeyPath<Engine, String>) -> [GroupTable] {
    var groups: [String] = []
    for row in rows where !groups.contains(row.group) { groups.append(row.group) }
    return groups.map { group in
      var table = GroupTable(group: group, rows: rows.filter { $0.group == group })
      let isWritten = table.rows.contains { $0.durability != nil }
      // An engine without a figure in this group has no column. The text below the table says why.
      let shown = engines.filter { engine in
        table.rows.contains { median(engine.name, $0.name) != nil }
      }
      table.named = isWritten ? 3 : 2
      table.heads =
        ["row", "unit"] + (isWritten ? ["durability"] : []) + shown.map { $0[keyPath: title] }
        + ["Moraine / best peer"]
      table.cells = table.rows.map { row in
        [row.name, row.unit + (row.lessIsBetter ? "" : " ↑")]
          + (isWritten ? [row.durability ?? ""] : []) + shown.map { cell($0.name, row) }
          + [bestPeer(row).map { FigureText.ratio($0.ratio) } ?? "–"]
      }
      return table
    }
  }

  private func cell(_ engine: String, _ row: Row) -> String {
    guard let median = median(engine, row.name) else { return "–" }
    return FigureText.figure(median) + (Report.isRanked(engine) && median == best(row) ? "*" : "")
      + (isUnsteady(engine, row.name) ? "~" : "")
  }

  private var legend: String {
    let arrow = rows.allSatisfy(\.lessIsBetter) ? "" : ", more where the unit has ↑"
    return "less is better\(arrow); * best of the row; ~ a round more than 20 % off the median; "
      + "– not measured; Moraine / best peer: above 1× Moraine is ahead"
  }

  private func roundsText(_ rows: [Row]) -> String {
    let names = Set(rows.map(\.name))
    let counts = figures.filter { names.contains($0.row) }.map(\.values.count).filter { $0 > 0 }
    guard let least = counts.min(), let most = counts.max() else { return "nothing measured" }
    if most == 1 { return "a single round" }
    let shorter = engines.filter { engine in
      figures.contains {
        $0.engine == engine.name && names.contains($0.row) && $0.values.count < most
      }
    }
    let titles = shorter.map(\.title).joined(separator: ", ")
    let exceptions = shorter.isEmpty ? "" : "; fewer of \(titles)"
    return "medians of \(least == most ? "" : "\(least) to ")\(most) rounds\(exceptions)"
  }

  var machineText: String {
    let memory = FigureText.short((Double(machine.memoryBytes) / 1_073_741_824).rounded())
    return "\(machine.processor), \(machine.coreCount) cores, \(memory) GiB of memory, "
      + "\(machine.fileSystem), \(machine.operatingSystem)"
  }

  private var measured: [(String, String)] {
    let names = Set(figures.map(\.engine) + latencies.map(\.engine) + series.map(\.engine))
    return engines.filter { $0.missing == nil && names.contains($0.name) }.map { engine in
      let short = engine.title.lowercased() == engine.name ? "" : " (\(engine.name))"
      let version = engine.version.isEmpty ? "" : " \(engine.version)"
      return ("\(engine.title)\(version)\(short)", engine.settings)
    }
  }

  private var missing: [(String, String)] {
    engines.compactMap { engine in engine.missing.map { (engine.title, $0) } }
  }

  /// Failures as `engine, rows: reason`. The reason may be a complete log.
  private var failed: [(String, String)] {
    failures.map { failure in
      let parts = failure.split(separator: ": ", maxSplits: 1).map(String.init)
      return (parts.first ?? "", Card.shortened(parts.count > 1 ? parts[1] : "", to: 300))
    }
  }
}
