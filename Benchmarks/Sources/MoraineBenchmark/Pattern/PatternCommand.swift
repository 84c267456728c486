import ArgumentParser
import BenchmarkSupport
import Foundation
import Moraine

/// Compares the typed layer with the pattern that it replaces.
struct PatternCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "pattern",
    abstract: "LocalRepository and @Persisted next to the pattern that everybody copies.",
    discussion: """
      The pattern is an actor with a dictionary, which writes all models as one JSON file, \
      atomically, at every save. Both hold the same models, in the same run. "Open" is until the \
      first find has answered; both read files that are cached. The pattern has decoded everything \
      by then, and has it in memory from then on: "open and loadAll" is the fair comparison of that, \
      and "loadAll again" is what keeping everything in memory buys.
      """)
  @Option(help: "How many models.") var count = 100_000
  @Option(help: "Where to make the files.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "How often each is measured.") var runs = 5

  func validate() throws {
    if count < 1 || runs < 1 { throw ValidationError("count and runs are at least 1") }
  }

  func run() async throws {
    let scratch = try Scratch(in: directory)
    defer { scratch.remove() }
    let folder = URL(fileURLWithPath: scratch.folder)
    var figures = PatternFigures(runs: runs)
    note("the pattern")
    try await figures.measurePattern(folder.appendingPathComponent("data.json"), count)
    note("LocalRepository")
    try await figures.measureRepository(folder, count)
    note("@Persisted")
    try await figures.measurePersisted(folder)
    print("\(count) models, medians of \(runs)")
    figures.print()
    print("\n\(reproduction)")
  }
}
