import ArgumentParser
import BenchmarkSupport
import Foundation

/// Runs the whole comparison, or a part of it.
struct RunCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run",
    abstract: "Measures, prints the table, and writes it with the charts into a folder.",
    discussion: """
      Every engine is measured in processes of its own, a group of rows in each, the engines taking \
      turns; the table has the medians over the rounds. Every value that is read is compared with \
      what was written: an engine that answers wrongly has no figure. Engines whose library is not \
      installed are listed as missing.
      """)
  @Flag(help: "Small stores, three rounds.")
  var short = false
  @Option(help: "How many keys; otherwise a million, or 120,000 with --short.") var count: Int?
  @Option(help: "How often everything is measured.") var rounds: Int?
  @Option(name: .customLong("group"), help: "Only this group of rows; may be repeated.")
  var groups: [String] = []
  @Option(name: .customLong("engine"), help: "Only this engine; may be repeated.")
  var engines: [String] = []
  @Option(help: "Where to make the stores: the disk that is measured.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "Where to write report.json, table.txt, table.md and the charts.")
  var output: String?
  @Option(help: "Seconds after which one group of one engine is given up.") var timeout = 3600
  @Option(help: "Seconds; a group of an engine that takes longer is measured in one round only.")
  var repeatLimit = 3600

  func validate() throws {
    if let count, count < 1000 { throw ValidationError("--count is at least 1000") }
    if let rounds, rounds < 1 { throw ValidationError("--rounds is at least 1") }
    let plan = plan
    for group in groups where !plan.groups.contains(group) {
      throw ValidationError("\(NotThere(what: "group", name: group, known: plan.groups))")
    }
    let known = Plan.engines.map(\.name)
    for engine in engines where !known.contains(engine) {
      throw ValidationError("\(NotThere(what: "engine", name: engine, known: known))")
    }
  }

  private var plan: Plan {
    let size = short ? Size.short : Size.long
    return Plan(size: count.map { size.scaled(to: $0) } ?? size)
  }

  func run() async throws {
    let plan = plan
    let comparison = Comparison(
      plan: plan, rounds: rounds ?? (short ? 3 : 5), groups: groups.isEmpty ? plan.groups : groups,
      engines: engines.isEmpty ? nil : Set(engines), directory: directory,
      timeout: .seconds(timeout), repeatLimit: .seconds(repeatLimit))
    var report = Report(
      date: Date.now.formatted(.iso8601), machine: try .current(directory),
      command: Self.command, engines: Plan.engines, rows: plan.rows)
    try await comparison.run(into: &report) { report in
      if let output { try report.withoutEmptyRows.write(to: output) }
    }
    report = report.withoutEmptyRows
    print(report.text)
    if !report.failures.isEmpty { throw ExitCode.failure }
  }

  private static var command: String {
    // The script inserts the subcommand before the user's arguments.
    (["Scripts/compare"]
      + CommandLine.arguments.dropFirst(2).map { $0.contains(" ") ? "\"\($0)\"" : $0 })
      .joined(separator: " ")
  }
}

/// Draws the table and the charts of an earlier run again.
struct DrawCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "draw", abstract: "Writes the table and the charts of a report again.")
  @Argument(help: "A report.json.") var report: String
  @Option(help: "Where to; beside the report when not said.") var output: String?

  func run() throws {
    let url = URL(fileURLWithPath: report)
    let decoded = try JSONDecoder().decode(Report.self, from: try Data(contentsOf: url))
    guard decoded.version == Report.currentVersion else {
      throw ValidationError("\(report) is of version \(decoded.version), not of this program's")
    }
    try decoded.write(to: output ?? url.deletingLastPathComponent().path)
    print(decoded.text)
  }
}

extension Report {
  var withoutEmptyRows: Report {
    var report = self
    report.rows.removeAll { row in !report.figures.contains { $0.row == row.name } }
    return report
  }

  func write(to folder: String) throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    let place = URL(fileURLWithPath: folder)
    try encoder.encode(self).write(to: place.appendingPathComponent("report.json"))
    for (name, text) in [("table.txt", text), ("table.md", markdown)] {
      try Data(text.utf8).write(to: place.appendingPathComponent(name))
    }
    for name in try ChartBook.write(self, to: folder) { note("wrote \(folder)/\(name)") }
  }
}
