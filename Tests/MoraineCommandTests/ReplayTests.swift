import ArgumentParser
import Foundation
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineCommand

/// The command that is printed with a violation repeats exactly the same run.
@Suite(.timeLimit(.minutes(10))) struct ReplayTests {
  /// Parses a printed command, as the shell would pass it on.
  private func parse(_ command: String) throws -> any ParsableCommand {
    let words = command.split(separator: " ").map(String.init)
    #expect(words.first == "moraine")
    return try MoraineCommand.parseAsRoot(Array(words.dropFirst()))
  }

  private static let fault = "eio,once,0,write,3,0000000001.segment"
  private static let second = "enospc,lasting,1,synchronizeData,2,0000000002.segment"

  private static func unit(
    _ kind: LaboratoryUnit.Kind, durability: String? = nil,
    _ change: (inout LaboratoryUnit) -> Void = { _ in }
  ) -> LaboratoryUnit {
    var unit = LaboratoryUnit(kind, "mixed-mapped", seed: 7, durability: durability)
    change(&unit)
    return unit
  }

  private static let units = [
    unit(.crashes), unit(.crashes, durability: "interval"),
    unit(.crashes) { ($0.nestingPeriod, $0.subsetsPerPoint, $0.tornPerPoint) = (1, 2, 0) },
    unit(.workloads), unit(.workloads, durability: "none"), unit(.faults, durability: "sync"),
    unit(.faults) { ($0.effect, $0.isPermanent) = (5, true) },
    unit(.faults) { ($0.effect, $0.isPermanent, $0.pairCount) = (3, true, 40) },
    unit(.faults) { $0.faults = [PlannedFault(fault)!] },
    unit(.faults, durability: "none") {
      $0.faults = [PlannedFault(fault)!, PlannedFault(second)!]
    },
  ]

  /// The same kind, scenario, seed, durability, figures and faults, and nothing else.
  @Test(arguments: units)
  func replayCommandRunsExactlyItsUnit(unit: LaboratoryUnit) throws {
    let command = try #require(try parse(unit.replay) as? any LaboratoryCommand)
    #expect(command.units == [unit])
    #expect(command.options.count == 1)
  }

  /// By default, each unit runs once.
  @Test func commandWithoutChoicesRunsEachUnitOnce() throws {
    let faults = try #require(try parse("moraine crash-test faults --seed 3") as? Faults)
    let count = CrashScenario.catalog.count * FaultLaboratory.effects.count * 2
    #expect(Set(faults.units).count == count && faults.units.count == count)
    let pairs = try #require(try parse("moraine crash-test faults --pairs 5") as? Faults)
    #expect(pairs.units.count == count && pairs.units.allSatisfy { $0.pairCount == 5 })
  }

  /// A unit that names one fault runs only that fault: the number of runs shows it.
  @Test func anExactFaultIsRunAgain() async throws {
    let unit = Self.unit(.faults) {
      $0.faults = [PlannedFault("short30,once,0,write,3,0000000001.segment")!]
      $0.scenario = "puts-positional"
    }
    let words = unit.replay.split(separator: " ").dropFirst().map(String.init)
    let outcome = try await Moraine.run(words + ["--json"])
    struct Report: Decodable { let tally: CrashTally }
    let report = try JSONDecoder().decode(Report.self, from: Data(outcome.output))
    #expect(outcome.code == 0, "\(outcome.errors)")
    #expect(report.tally.faultRuns == 1 && report.tally.missedCalls == 0)
  }

  /// A fault that strikes no call is no success; otherwise a replay that does nothing would be
  /// believed.
  @Test func faultThatIsNeverMetIsReported() async throws {
    let outcome = try await Moraine.run(
      "crash-test", "faults", "--scenario", "puts-mapped", "--fault", "eio,once,9,read,1,none")
    #expect(outcome.code == 3 && outcome.errors.contains("1 calls were not reached"), "\(outcome)")
  }

  @Test(arguments: [
    ["faults", "--fault", "eio"], ["faults", "--effect", "no-such"], ["faults", "--pairs", "0"],
    ["faults", "--fault", fault, "--pairs", "1"], ["faults", "--lasting", "perhaps"],
    ["--nesting-period", "-1"], ["--subsets", "x"], ["--torn", "1000001"],
  ])
  func misuseExitsWith2(arguments: [String]) async throws {
    let outcome = try await Moraine.run(["crash-test"] + arguments)
    #expect(outcome.code == 2 && !outcome.errors.isEmpty, "\(outcome)")
  }

  @Test(arguments: [
    ["--kills", "7", "--durability", "sync", "--io", "positional", "--timeout", "5"],
    ["--kills", "3", "--durability", "interval", "--directory", "/tmp/a-b"], [],
  ])
  func killsAreRepeatedWithTheirOptions(options: [String]) throws {
    let words = ["crash-test", "kills"] + options
    let command = try #require(try MoraineCommand.parseAsRoot(words) as? Kills)
    let again = try #require(try parse(command.replay(11)) as? Kills)
    #expect(again.seed == 11)
    #expect(again.kills == command.kills && again.timeout == command.timeout)
    #expect(again.durability == command.durability && again.io == command.io)
    // The first directory holds the store that was kept.
    #expect(again.directory == command.directory.map { $0 + "-again" })
  }

  /// The printed command runs, though the first run's store still exists.
  @Test func aPrintedReplayOfKillsRuns() async throws {
    let place = try Place()
    let directory = place.folder.path + "/it's here"
    let options = ["--kills", "2", "--timeout", "50", "--directory", directory]
    let command = try #require(
      try MoraineCommand.parseAsRoot(["crash-test", "kills"] + options) as? Kills)
    let first = try await Moraine.run(["crash-test", "kills", "--seed", "4"] + options)
    #expect(first.code == 0, "\(first)")
    try FileManager.default.createDirectory(
      atPath: directory + "-again", withIntermediateDirectories: true)
    let outcome = try await Moraine.shell(
      #"moraine() { "$program" "$@"; }; program="$0"; eval "$1""#, [command.replay(4)])
    #expect(outcome.code == 0 && outcome.errors.contains("seed 4, none, mapped"), "\(outcome)")
    #expect(FileManager.default.fileExists(atPath: directory + "-again-again/subject"))
  }

  @Test func aWordOfAShellIsQuoted() {
    #expect(Text.shellQuoted("/tmp/a-b_c.d") == "/tmp/a-b_c.d")
    #expect(Text.shellQuoted("") == "''")
    #expect(Text.shellQuoted("a b") == "'a b'")
    #expect(Text.shellQuoted("it's") == #"'it'\''s'"#)
  }
}
