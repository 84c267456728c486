import Foundation
import MoraineTesting
import Testing

@testable import MoraineCommand

/// `moraine crash-test`, as its users run it, and its recovery from every failure of a worker.
@Suite(.timeLimit(.minutes(10))) struct CrashTestTests {
  private let quick = ["--scenario", "one-key-mapped", "--count", "1"]

  @Test func aScenarioIsRunAndReported() async throws {
    let place = NSTemporaryDirectory() + UUID().uuidString
    let outcome = try await Moraine.run(
      ["crash-test"] + quick + ["--json", "--artifacts", place])
    #expect(outcome.code == 0, "\(outcome.errors)")
    struct Report: Decodable {
      let tally: CrashTally
      let violations: [CrashViolation]
    }
    let report = try JSONDecoder().decode(Report.self, from: Data(outcome.output))
    #expect(report.violations.isEmpty)
    #expect(report.tally.distinctImages > 20)
    #expect(!FileManager.default.fileExists(atPath: place), "nothing was violated")
  }

  @Test func theListNamesEveryScenario() async throws {
    let outcome = try await Moraine.run("crash-test", "--list")
    #expect(outcome.code == 0)
    for scenario in CrashScenario.catalog {
      #expect(outcome.lines.contains { $0.hasPrefix(scenario.name + " ") })
    }
  }

  @Test(arguments: [
    ["crash-test", "--scenario", "no-such"], ["crash-test", "--seed", "minus one"],
    ["crash-test", "--count", "0"], ["crash-test", "--durability", "forever"],
    ["crash-test", "--seed", "18446744073709551615", "--count", "2"],
    ["crash-test", "faults", "--scenario", "no-such"], ["crash-test", "no-such"],
    ["crash-test", "--time-budget", "nan"], ["crash-test", "--time-budget", "1e300"],
    ["crash-test", "--time-budget", "0"], ["crash-test", "--timeout-seconds", "inf"],
    ["crash-test", "--jobs", "100000000"], ["crash-test", "--images", "0"],
  ])
  func invalidArgumentIsAUsageError(arguments: [String]) async throws {
    let outcome = try await Moraine.run(arguments)
    #expect(outcome.code == 2, "\(outcome.errors)")
    #expect(!outcome.errors.isEmpty)
  }

  /// The report names what the budget left out, and a run that misses its target does not succeed.
  @Test func timeBudgetEndsTheRunWithAReport() async throws {
    let many = ["crash-test", "--scenario", "one-key-mapped", "--scenario", "puts-mapped"]
    let outcome = try await Moraine.run(
      many + ["--count", "9223372036854775807", "--time-budget", "0.2", "--jobs", "1"])
    #expect(outcome.code == 0, "\(outcome.errors)")
    #expect(outcome.text.contains("Incomplete: "), "\(outcome.text)")
    let missed = try await Moraine.run(
      many + ["--images", "1000000000", "--time-budget", "0.2", "--jobs", "1"])
    #expect(missed.code == 3)
    #expect(missed.errors.contains("before 1000000000 disks were checked"))
  }

  private let units = ["a", "b", "c"].map { LaboratoryUnit(.crashes, $0, seed: 7) }

  private func result() throws -> String {
    let answer = try JSONEncoder().encode(UnitResult(tally: CrashTally(), violation: nil))
    return "end " + String(decoding: answer, as: UTF8.self) + "\n"
  }

  /// The unit at which the worker died is a violation, and another worker does the remaining units.
  @Test func aWorkerThatTrapsIsAViolation() throws {
    let progress = WorkerProgress()
    progress.take(try result())
    let (results, rest) = progress.settle(units, ending: "signal 5", timeoutSeconds: 1)
    #expect(results.count == 2)
    let violation = try #require(results.last?.violation)
    #expect(violation.scenario == "b")
    #expect(violation.finding.contains("signal 5"))
    #expect(violation.replay == "moraine crash-test crashes --scenario b --seed 7 --count 1")
    #expect(rest == [units[2]])
  }

  @Test func aWorkerThatHangsIsAViolation() throws {
    let progress = WorkerProgress()
    #expect(!progress.hangs(longerThan: .seconds(1000)))
    #expect(progress.hangs(longerThan: .zero))
    let (results, rest) = progress.settle(units, ending: "signal 9", timeoutSeconds: 1)
    #expect(results.last?.violation?.finding.contains("hung") == true)
    #expect(rest == Array(units[1...]))
  }

  @Test func workerThatWritesNonsenseIsAViolation() throws {
    let progress = WorkerProgress()
    progress.take("end {}\n")
    let (results, _) = progress.settle(units, ending: "0", timeoutSeconds: 1)
    #expect(results.last?.violation?.finding.contains("end {}") == true)
  }

  /// Regression: a worker that had answered for all of its units passed, whatever it printed
  /// between its answers, and whatever ended it.
  @Test func workerThatFailsBesideItsAnswersIsAViolation() throws {
    let chatter = WorkerProgress()
    chatter.take(try result())
    chatter.take("chatter")
    for _ in 0..<2 { chatter.take(try result()) }
    let (results, rest) = chatter.settle(units, ending: "exited(0)", timeoutSeconds: 1)
    #expect(results.count == 3 && rest.isEmpty)
    let violation = try #require(results[1].violation)
    #expect(violation.scenario == "b" && violation.finding.contains("chatter"))
    #expect(results[0].violation == nil && results[2].violation == nil)

    let trapped = WorkerProgress()
    for _ in 0..<3 { trapped.take(try result()) }
    let sound = trapped.settle(units, ending: "exited(0)", timeoutSeconds: 1)
    #expect(sound.results.allSatisfy { $0.violation == nil })
    let dead = trapped.settle(units, ending: "signal 5", hasFailed: true, timeoutSeconds: 1)
    #expect(dead.results.last?.violation?.finding.contains("signal 5") == true)
    #expect(dead.results.count == 3 && dead.rest.isEmpty)
    // The pool itself has killed a worker that hung after its last answer.
    #expect(trapped.hangs(longerThan: .zero))
    let killed = trapped.settle(units, ending: "signal 9", hasFailed: true, timeoutSeconds: 1)
    #expect(killed.results.allSatisfy { $0.violation == nil })
  }
}
