import ArgumentParser
import Foundation
import MoraineTesting

/// What all parts of the laboratory can be told.
struct LaboratoryOptions: ParsableArguments {
  @Option(help: "A scenario by its name; may be given several times. Default: all.")
  var scenario: [String] = []
  @Option(help: "The first seed.")
  var seed: UInt64 = 1
  @Option(help: "How many seeds for each scenario.")
  var count: UInt64 = 1
  @Option(help: "sync, interval or none, instead of the scenario's own durability.")
  var durability: String?
  @Option(help: "Begin nothing new after so many seconds; the report says what was left out.")
  var timeBudget: Double?
  @Option(help: "How many processes work at a time. Default: one for each core.")
  var jobs: Int?
  @Option(help: "How many seconds a piece of work may say nothing before it counts as hung.")
  var timeoutSeconds: Double = 120
  @Option(help: "Where disks on which something was violated are kept.")
  var artifacts: String = "moraine-crash-test"
  @Flag(help: "One JSON object at the end, for programs.")
  var json = false
  @Flag(help: "List the scenarios and end.")
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
      throw ValidationError("there are no seeds behind \(UInt64.max)")
    }
  }

  /// The pieces of the first seed.
  func units(_ kind: LaboratoryUnit.Kind) -> [LaboratoryUnit] {
    (scenario.isEmpty ? CrashScenario.catalog.map(\.name) : scenario).map {
      LaboratoryUnit(kind, $0, seed: seed, durability: durability)
    }
  }

  /// - Parameter units: those of the first seed; those of the others are like them.
  func run(_ units: [LaboratoryUnit], imageTarget: Int? = nil) async throws {
    if list { return try printCatalog() }
    let queue = UnitQueue(units, self, imageTarget: imageTarget)
    let pool = WorkerPool(
      jobs: jobs ?? ProcessInfo.processInfo.activeProcessorCount, timeoutSeconds: timeoutSeconds,
      artifacts: artifacts)
    let report = await pool.run(queue, isQuiet: json)
    try report.print(units.first, asJSON: json)
    guard report.unitCount > 0 else { throw Failure(code: 3, message: "nothing was judged") }
    guard report.violations.isEmpty else {
      throw Failure(code: 3, message: "promises were broken: \(report.violations.count)")
    }
    guard report.tally.missedCalls == 0 else {
      for replay in report.tally.missed { Output.note("  not reached; again: \(replay)") }
      throw Failure(code: 3, message: "\(report.tally.missedCalls) calls were not reached")
    }
    if let imageTarget, report.tally.judgedImages < imageTarget {
      throw Failure(code: 3, message: "the time ended before \(imageTarget) disks were judged")
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
