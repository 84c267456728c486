import Foundation

/// All pictures of a report.
enum ChartBook {
  /// Writes the pictures for which the report has data.
  ///
  /// - Returns: the names of the files, in the order in which a text shows them.
  static func write(_ report: Report, to folder: String) throws -> [String] {
    let folder = URL(fileURLWithPath: folder, isDirectory: true)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    var names: [String] = []
    for (name, text) in pictures(report) {
      try Data(text.utf8).write(to: folder.appendingPathComponent(name), options: .atomic)
      names.append(name)
    }
    return names
  }

  /// Returns each picture with the name of its file.
  static func pictures(_ report: Report) -> [(name: String, text: String)] {
    let candidates = [
      ("throughput.svg", ThroughputChart.draw(report, rows: throughputRows(report))),
      (
        "ordered.svg",
        ThroughputChart.draw(
          report, rows: speedRows(report, group: OrderedKeys.name),
          title: "Ordered keyspaces, keys put in random order")
      ),
      (
        "ascending.svg",
        ThroughputChart.draw(
          report, rows: speedRows(report, group: AscendingKeys.name),
          title: "Ordered keyspaces, keys put in their order")
      ),
      (
        "latency-put.svg",
        LatencyChart.draw(report, row: "put latency", title: "How long single puts take")
      ),
      (
        "latency-get.svg",
        LatencyChart.draw(report, row: "get latency", title: "How long single gets take")
      ),
      ("open.svg", CurveChart.draw(report, .open)),
      ("space.svg", CurveChart.draw(report, .space)),
    ]
    return candidates.compactMap { name, text in text.map { (name: name, text: $0) } }
  }

  /// Returns the rows of speed of a group that a peer has as well, in the report's order.
  private static func speedRows(_ report: Report, group: String) -> [String] {
    report.rows.filter { $0.group == group && isSpeed($0) && report.bestPeer($0) != nil }
      .map(\.name)
  }

  /// Returns up to ten rows of speed that a peer has as well, in the report's order: first the most
  /// common rows, then others. The table has all rows, which would be too many for a picture. The
  /// groups of ordered keys have pictures of their own.
  static func throughputRows(_ report: Report) -> [String] {
    let rows = report.rows.filter {
      !Plan.orderedGroups.contains($0.group) && isSpeed($0) && report.bestPeer($0) != nil
    }.map(\.name)
    let first = rows.filter(headlines.contains)
    let shown = Set((first + rows.filter { !first.contains($0) }).prefix(10))
    return rows.filter(shown.contains)
  }

  private static let headlines = [
    "fillrandom", "overwrite", "readrandom", "readmissing", "readseq", "fillbatch1000",
    "fillsync x1", "fillsync x16", "YCSB-A 100 B", "YCSB-B 100 B",
  ]

  /// Returns whether the row is about speed. Times and rates are; bytes are not.
  private static func isSpeed(_ row: Report.Row) -> Bool {
    let unit = row.unit.lowercased()
    return ["ns", "µs", "us", "ms", "s"].contains(unit.prefix { $0 != " " && $0 != "/" })
      || unit.hasSuffix("/s") || unit.hasSuffix(" a second")
  }
}
