import ArgumentParser
import Moraine
import SystemPackage

struct Verify: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Reads and checks every byte; changes nothing.",
    discussion: """
      Exit code 3 if the store is damaged. Standard error lists each problem with
      its file and offset. A damaged index checkpoint (*.index) is reported, and is
      no damage to the store: the log is read instead.

      With --json one object, for a damaged store too: isSound, recordCount,
      checkedBytes, problemCount and problems, each of which has code, file,
      offset and message (null where it does not apply); for a damaged index
      checkpoint also checkpointProblem, an object like those of problems.

        moraine verify users.moraine --json | jq '.problems[]'
      """)
  @OptionGroup var store: StoreOptions
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    let bar = ProgressBar("verifying")
    defer { bar.finish() }
    var findings = Findings()
    do {
      findings = try await store.reading { store in
        let report = try await store.verify { progress in
          bar.update(progress.completedBytes, of: progress.totalBytes)
        }
        return Findings(report, await store.recoveryReport)
      }
    } catch let error as StoreError where error.code == .corrupted {
      // Opening reads every record too, and stops at the first damage.
      findings.problems = [error]
      if error.isDamageOfTheLog { await findings.addDamage(of: store.directory, after: error) }
    }
    bar.finish()
    try findings.print(json: json)
  }
}

/// The results of a verification.
struct Findings {
  var recordCount: UInt64 = 0
  var checkedBytes: UInt64 = 0
  /// What makes the store unsound.
  var problems: [StoreError] = []
  /// Why the index checkpoint was not used.
  var checkpointProblem: StoreError?

  init() {}

  init(_ report: VerificationReport, _ recovery: RecoveryReport) {
    recordCount = report.recordCount
    checkedBytes = report.checkedBytes
    problems = Examination.problems(of: report, recovery)
    checkpointProblem = recovery.checkpointProblem
  }

  /// Adds each other damaged place of a store that the error keeps from being opened.
  mutating func addDamage(of directory: String, after first: StoreError) async {
    do throws(StoreError) {
      let survey = try await Store.survey(FilePath(directory))
      (recordCount, checkedBytes) = (survey.recordCount, survey.readBytes)
      problems = survey.problems(after: first)
    } catch {
      // The damage that is known stays the first finding.
      problems.append(error)
    }
  }

  func print(json: Bool) throws {
    if json {
      try Output.line(self.json)
    } else if problems.isEmpty {
      let (count, bytes) = (Units.number(recordCount), Units.bytes(checkedBytes))
      try Output.line("sound: \(count) records, \(bytes)")
      if let checkpointProblem {
        try Output.line(
          "The index checkpoint could not be used; the log was read instead: \(checkpointProblem)")
      }
    }
    guard !problems.isEmpty else { return }
    for problem in problems { Output.error(problem.description) }
    // A read error does not mean that the data is damaged.
    let isDamaged = problems.contains { $0.code == .corrupted }
    throw Failure(code: isDamaged ? 3 : problems[0].exitCode, message: nil)
  }

  private var json: String {
    var object: JSONObject = [
      "isSound": problems.isEmpty, "recordCount": recordCount, "checkedBytes": checkedBytes,
      "problemCount": problems.count, "problems": problems,
    ]
    if let checkpointProblem { object.add("checkpointProblem", checkpointProblem) }
    return object.json
  }
}
