import ArgumentParser
import Foundation
import MoraineTesting

/// The options that all subcommands of the laboratory have.
struct LaboratoryOptions: ParsableArguments {
  @Option(help: "A scenario by its name; may be given several times. Default: all.")
  var scenario: [String] = []
  @Option(help: "The first seed.")
  var seed: UInt64 = 1
  @Option(help: "The number of seeds for each scenario.")
  var count: UInt64 = 1
  @Option(help: "sync, interval or none. Default: the durability of the scenario.")
  var durability: String?
  @Option(help: "Start no work after this number of seconds; the report counts what is missing.")
  var timeBudget: Double?
  @Option(help: "The number of processes that work at the same time. Default: one per core.")
  var jobs: Int?
  @Option(help: "The seconds without a sign of progress after which a worker counts as hung.")
  var timeoutSeconds: Double = 120
  @Option(help: "The directory for disks on which a promise was violated.")
  var artifacts: String = "moraine-crash-test"
  @Flag(help: "Print one JSON object at the end, for programs.")
  var json = false
  @Flag(help: "List the scenarios and exit.")
  var list = false

  func validate() throws {
    let known = Set(CrashScenario.catalog.map(\.name))
    for name in scenario where !known.contains(name) {
      throw ValidationError("no scenario is named '\(name)'; --list shows them all")
    }
    if let durability, !["sync", "interval", "none"].contains(durability) {
      throw ValidationError("'\(durability)' is none of sync, interval, none")
    }
    guard count >= 1 else { throw ValidationError("--count takes a number from 1") }
    guard 1...1024 ~= jobs ?? 1 else {
      throw ValidationError("--jobs takes a number from 1 to 1024")
    }
    for (name, seconds) in [("--timeout-seconds", timeoutSeconds), ("--time-budget", timeBudget)] {
      guard let seconds, !(seconds > 0 && seconds <= 10_000_000) else { continue }
      throw ValidationError("\(name) takes seconds above 0, up to 10000000")
    }
    guard seed.addingReportingOverflow(count).overflow == false else {
      throw ValidationError("--seed plus --count exceeds \(UInt64.max), the largest seed")
    }
  }

  /// Returns the units of work of the first seed.
  func units(_ kind: LaboratoryUnit.Kind) -> [LaboratoryUnit] {
    (scenario.isEmpty ? CrashScenario.catalog.map(\.name) : scenario).map {
      LaboratoryUnit(kind, $0, seed: seed, durability: durability)
    }
  }

  /// Runs the units of all seeds and prints the report.
  ///
  /// - Parameter units: the units of the first seed; those of other seeds differ only in the seed.
  func run(_ units: [LaboratoryUnit], imageTarget: Int? = nil) async throws {
    if list { return try printCatalog() }
    let queue = UnitQueue(units, self, imageTarget: imageTarget)
    let pool = WorkerPool(
      jobs: jobs ?? ProcessInfo.processInfo.activeProcessorCount, timeoutSeconds: timeoutSeconds,
      artifacts: artifacts)
    let report = await pool.run(queue, isQuiet: json)
    try report.print(units.first, asJSON: json)
    guard report.unitCount > 0 else { throw Failure(code: 3, message: "no disk was checked") }
    guard report.violations.isEmpty else {
      throw Failure(code: 3, message: "violations of a promise: \(report.violations.count)")
    }
    guard report.tally.missedCalls == 0 else {
      for replay in report.tally.missed { Output.note("  not reached; repeat with: \(replay)") }
      throw Failure(code: 3, message: "\(report.tally.missedCalls) calls were not reached")
    }
    if let imageTarget, report.tally.judgedImages < imageTarget {
      throw Failure(code: 3, message: "the time ended before \(imageTarget) disks were checked")
    }
  }

  private func printCatalog() throws {
    let width = CrashScenario.catalog.map(\.name.count).max() ?? 0
    for scenario in CrashScenario.catalog {
      let name = scenario.name.padding(toLength: width, withPad: " ", startingAt: 0)
      try Output.line("\(name)  \(scenario.summary)")
    }
  }
}
