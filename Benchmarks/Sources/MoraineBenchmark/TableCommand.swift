import ArgumentParser
import BenchmarkSupport
import Foundation

/// Measures one row for each workload, through the public interface with one `await` for each
/// operation.
struct TableCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "table",
    abstract: "Measures a Moraine store: microseconds an operation, medians over the runs.",
    discussion: """
      Keys have 16 bytes, values 100 bytes, half random and half a repetition of that. Durability \
      is none, except in the rows sync1, sync16 and sync256, where as many tasks commit durably. \
      The row "empty actor" is what every row pays before the store does anything: a key made and \
      an actor entered.
      """)
  @Option(help: "How many keys.") var count = 1_000_000
  @Option(help: "Where to make the stores.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "How often to run everything.") var runs = 1

  func validate() throws {
    if count < 1 || runs < 1 { throw ValidationError("count and runs are at least 1") }
  }

  func run() async throws {
    let data = TestData(count: count)
    var table = Table()
    for run in 1...runs {
      if runs > 1 { note("run \(run) of \(runs)") }
      let scratch = try Scratch(in: directory)
      defer { scratch.remove() }
      try await Workloads(data: data, folder: scratch.folder).run(into: &table)
    }
    print("\(count) keys of 16 bytes, values of 100 bytes; \(runs) runs, medians")
    table.print()
  }
}
