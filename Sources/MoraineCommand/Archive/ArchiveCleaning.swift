import ArgumentParser
import MoraineArchive

struct ArchiveCleaning: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "archive-clean",
    abstract: "Removes old states from an archive.",
    discussion: """
      The newest state stays, and: each moment of a time, the states of all
      checkpoints of a time, and one state a day. Each time counts back from the
      newest checkpoint, so that an archive that is not written loses nothing. The
      clock of this machine does not matter. A writer can be attached. Data objects
      are removed when the last writer has made a checkpoint, as moraine archive does
      with --checkpoint.

        moraine archive-clean file:/mnt/nas/users --dry-run
        moraine archive-clean file:/mnt/nas/users --keep 48h --keep-days 90

      A time is a number with s, m, h or d. Exit code 3 when an object is missing or
      damaged that a state needs which stays; then nothing is removed. If it is the
      list of segments of a whole copy between checkpoints, commits are removed, and
      the list is named. Exit code 10 without the permission to remove. With --json
      one object: commitCount, objectCount, checkpointCount, firstPosition,
      waitsForCheckpoint, damagedContents.
      """)
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Option(help: "The time of which each moment stays.") var keep = Period(seconds: 86_400)
  @Option(help: "The time of which the state of each checkpoint stays.")
  var keepCheckpoints = Period(seconds: 86_400)
  @Option(help: "The number of days of which one state stays.") var keepDays = 30
  @Flag(help: "Remove nothing, and say what would be removed.") var dryRun = false
  @Flag(help: "Print one JSON object.") var json = false

  func validate() throws {
    if keepDays < 0 { throw ValidationError("--keep-days is at least 0") }
  }

  func run() async throws {
    let rule = RetentionRule(
      moments: .seconds(keep.seconds), checkpoints: .seconds(keepCheckpoints.seconds),
      days: keepDays)
    let report = try await archive.open().clean(rule, isDryRun: dryRun)
    if json {
      let object: JSONObject = [
        "commitCount": report.commitCount, "objectCount": report.objectCount,
        "checkpointCount": report.checkpointCount, "firstPosition": report.firstPosition,
        "waitsForCheckpoint": report.waitsForCheckpoint,
        "damagedContents": report.damagedContents.map(\.text),
      ]
      try Output.line(object.json)
    } else {
      for line in Self.lines(report, isDryRun: dryRun) { try Output.line(line) }
    }
    try Self.check(report)
  }

  static func lines(_ report: CleaningReport, isDryRun: Bool) -> [String] {
    var lines = [
      (isDryRun ? "would remove " : "removed ")
        + "\(Units.counted(report.commitCount, "commit")) and "
        + "\(Units.counted(report.objectCount, "object"))",
      "each moment from position \(report.firstPosition) on can be restored, and the states of "
        + Units.counted(report.checkpointCount, "checkpoint"),
    ]
    if report.waitsForCheckpoint {
      lines.append(
        "no object was removed: a writer has attached since the newest checkpoint; "
          + "clean again after its first checkpoint")
    }
    if let object = report.damagedContents {
      lines.append(
        "no object was removed: the list of segments \(object) cannot be read; clean again, and if "
          + "that stays so, 'moraine archive-verify ARCHIVE --deep' says what is damaged")
    }
    return lines
  }

  /// Ends the command as damaged, so that a job at night does not go on unnoticed without removing
  /// any object.
  static func check(_ report: CleaningReport) throws {
    if report.damagedContents != nil { throw Failure(code: 3, message: nil) }
  }
}

/// A time as people write it: `90s`, `15m`, `48h`, `7d`.
struct Period: ExpressibleByArgument, CustomStringConvertible {
  let seconds: Int64

  init(seconds: Int64) { self.seconds = seconds }

  init?(argument: String) {
    let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
    guard let unit = argument.last.flatMap({ units[$0] }), let count = Int64(argument.dropLast()),
      count >= 0, count <= 1_000_000_000
    else { return nil }
    seconds = count * unit
  }

  var description: String { seconds % 3600 == 0 ? "\(seconds / 3600)h" : "\(seconds)s" }
  var defaultValueDescription: String { description }
}
