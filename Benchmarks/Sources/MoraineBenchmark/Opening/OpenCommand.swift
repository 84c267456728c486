import ArgumentParser
import BenchmarkSupport
import Foundation
import MoraineEngine

/// Measures the time to open a store, and the memory of its index.
struct OpenCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "open",
    abstract: "Opening and the first get, closed or killed before; index bytes a key.",
    discussion: """
      Keys have 16 bytes, values 100 bytes, each key is written once, with durability none. The \
      files are cached. "Killed" is a process of its own that ended with SIGKILL when it had \
      written the last key and synced nothing since the last full segment; a new one for each run.
      """)
  @Option(parsing: .upToNextOption, help: "How many keys: one row each.")
  var sizes = [100_000, 1_000_000]
  @Flag(help: "A row of 10,000,000 keys as well.") var large = false
  @Option(help: "Index bytes are read while a store grows from so many keys to twice as many.")
  var growFrom = 1_000_000
  @Option(help: "Keys between two readings of the index bytes.") var growStep = 50_000
  @Option(help: "Where to make the stores.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "How often each is opened.") var runs = 5

  func validate() throws {
    if sizes.contains(where: { $0 < 1 }) || runs < 1 || growFrom < 1 || growStep < 1 {
      throw ValidationError("sizes, runs, grow-from and grow-step are at least 1")
    }
  }

  func run() async throws {
    let scratch = try Scratch(in: directory)
    defer { scratch.remove() }
    var grid = Grid([
      "keys", "closed, ms", "killed, ms", "log, MB", "resynced, MB", "index bytes a key",
      "before closing",
    ])
    for count in sizes + (large ? [10_000_000] : []) {
      note("opening \(count) keys")
      let opening = Opening(data: TestData(count: count), scratch: scratch)
      let closed = try await opening.closed(runs)
      let killed = try await opening.killed(runs)
      grid.add(
        "\(count)",
        [
          decimal(median(closed.milliseconds), 1), decimal(median(killed.milliseconds), 1),
          megabytes(closed.logBytes), megabytes(killed.resyncedBytes),
          decimal(closed.indexBytesPerKey), decimal(closed.indexBytesPerKeyBefore),
        ])
    }
    note("growing")
    let growth = try await IndexGrowth(
      from: growFrom, step: growStep, path: scratch.path("growing"))
    print("Store(at:) and the first get, medians of \(runs) runs")
    grid.print()
    print("\nindex bytes a key, every \(growStep) keys from \(growFrom) to \(2 * growFrom)")
    growth.grid.print()
    print("\n\(reproduction)")
  }
}

/// Writes a store and ends with SIGKILL. `open` starts this command as a child.
struct WriteAndDieCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "write-and-die", shouldDisplay: false)
  @Argument var path: String
  @Option var count: Int

  func run() async throws {
    let store = try await Opening.fill(.init(path), TestData(count: count))
    kill(getpid(), SIGKILL)
    try await store.close()
    throw WrongAnswer(row: "SIGKILL")
  }
}
