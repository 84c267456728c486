import ArgumentParser
import BenchmarkSupport
import Foundation
import MoraineEngine

/// Measures the cost of compaction for concurrent writers, and the speed of compaction alone.
struct CompactionCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compaction",
    abstract: "Overwrites with compaction in the background; then compact() by hand.",
    discussion: """
      Keys have 16 bytes, values 100 bytes, half random and half a repetition of that. After \
      loading, random keys are overwritten, one await a put: all keys alike, then zipfian with \
      theta 0.99, the frequent ones spread over the keys. Every value is checked afterwards, and \
      again in the reopened store. "Allocated" is what the files take on disk, room set aside and \
      the output of a compaction under way included. compact() by hand runs over segments of \
      which half is garbage, with the files cached.
      """)
  @Option(help: "How many keys.") var count = 1_000_000
  @Option(help: "How many overwrites a key, on average.") var overwrites = 10
  @Option(help: "Where to make the stores.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "How often compact() runs, each time over a new store.") var runs = 3
  @Option(help: "Segment size while overwriting, in MiB.") var segment = 64
  @Flag(help: "With --manual: a million different values, not 1024 that a dictionary can hold.")
  var distinct = false
  @Flag(inversion: .prefixedNo, help: "Whether compaction looks for dictionaries.")
  var dictionaries = true
  @Flag(help: "compact() by hand alone.") var manual = false
  @Flag(help: "Durability .interval of one second, as by default; otherwise .none.")
  var interval = false

  func validate() throws {
    if distinct && !manual { throw ValidationError("--distinct goes with --manual") }
    if count < 2 || runs < 1 || overwrites < 1 || segment < 1 {
      throw ValidationError("count is at least 2; runs, overwrites and segment at least 1")
    }
  }

  func run() async throws {
    let data = TestData(count: count, valueCount: distinct ? 1 << 20 : 1024)
    let scratch = try Scratch(in: directory)
    defer { scratch.remove() }
    var configuration = Store.Configuration()
    configuration.durability = interval ? .interval(.seconds(1)) : .none
    configuration.segmentSizeBytes = segment << 20
    configuration.compaction.sharesDictionaries = dictionaries
    let workload = OverwriteWorkload(
      data: data, scratch: scratch, operations: count * overwrites, configuration: configuration)
    var overwriting: [(name: String, figures: OverwriteFigures)] = []
    if !manual {
      note("overwriting, uniform")
      overwriting.append(("uniform", try await workload.run(.uniform)))
      note("overwriting, zipfian")
      overwriting.append(("zipfian", try await workload.run(.zipfian)))
    }
    var byHand: [ManualCompaction] = []
    for size in [1, 64] {
      note("compact(), segments of \(size) MiB")
      byHand.append(
        try await ManualCompaction(
          data: data, scratch: scratch, size: size, runs: runs,
          sharesDictionaries: dictionaries))
    }
    if !manual {
      print("\(count) keys, \(count * overwrites) overwrites, segments of \(segment) MiB")
      OverwriteFigures.grid(overwriting).print()
    }
    print("\ncompact() by hand over \(2 * count) records, half of them garbage; medians of \(runs)")
    ManualCompaction.grid(byHand).print()
    let problems = overwriting.flatMap(\.figures.problems)
    for problem in problems { print("\nPROBLEM: \(problem)") }
    print("\n\(reproduction)")
    if !problems.isEmpty { throw ExitCode.failure }
  }
}
