import ArgumentParser
import Foundation
import MoraineTesting
import SystemPackage

/// Kills `moraine drive` at random moments and checks the store afterwards.
struct Kills: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "kills",
    abstract: "Kills a writing process again and again, and checks the store each time.",
    discussion: """
      Runs the drive command of this program on one growing store. Ends it with
      SIGKILL while it starts, works, compacts or closes, and compares the whole
      store with the acknowledged operations. Exit code 0 if nothing was lost or
      invented; 3 if something was, or if the process trapped, hung, or wrote
      outside its folder.

      A seed repeats the operations and the moments of the kills, but not to the
      exact instruction.

        moraine crash-test kills --kills 1000 --durability none --seed 7
      """)
  @Option(help: "The number of processes to kill.") var kills = 100
  @Option(help: "The seed, which repeats a run. Default: random.") var seed: UInt64?
  @Option(help: "The durability that ok after a write confirms.") var durability = Drive.Level.none
  @Option(help: "How the log is written.") var io = Drive.IO.mapped
  @Option(
    help:
      "A new directory for the store, which is kept. Default: a temporary one, kept on failure.",
    completion: .directory)
  var directory: String?
  @Option(help: "The longest wait for an answer, in seconds.") var timeout = timeoutDefault
  @Flag(help: "Print one JSON object.") var json = false

  private static let timeoutDefault = 60

  func validate() throws {
    if kills < 1 { throw ValidationError("--kills takes a number from 1") }
    if directory?.isEmpty == true { throw ValidationError("--directory takes a path") }
    if let directory, FileManager.default.fileExists(atPath: directory + "/subject") {
      throw ValidationError("\(directory)/subject exists already; give --directory a new path")
    }
    if !(1...86_400 ~= timeout) {
      throw ValidationError("--timeout takes a number from 1 to 86400")
    }
  }

  func run() async throws {
    let seed = seed ?? .random(in: .min ... .max)
    let ground = directory ?? Self.temporaryDirectory()
    if !json { Output.note("seed \(seed), \(durability), \(io), in \(ground)") }
    let harness = try harness(seed, FilePath(ground))
    let bar = ProgressBar("killing")
    let (report, failure) = await outcome(harness, seed, bar)
    bar.finish()
    try print(report, failure)
    if let failure {
      throw Failure(code: failure.exitCode, message: json ? nil : "the store is in \(ground)")
    }
    if directory == nil { try FileManager.default.removeItem(atPath: ground) }
  }

  private func outcome(
    _ harness: KillHarness, _ seed: UInt64, _ bar: ProgressBar
  ) async -> (KillReport, KillFailure?) {
    do {
      let report = try await harness.run(DriveScript(seed: seed), kills: kills) { report in
        bar.say(Self.progress(report, of: kills))
      }
      return (report, nil)
    } catch {
      return (error.report, error)
    }
  }

  private func harness(_ seed: UInt64, _ ground: FilePath) throws -> KillHarness {
    guard let program = Bundle.main.executablePath else {
      throw Failure(code: 5, message: "cannot find the path of this program")
    }
    let options = [
      "--durability", durability.rawValue, "--io", io.rawValue,
      // Small segments, so that compaction, sealing and checkpoints always have work.
      "--segment-size", "16384", "--checkpoint-floor", "0",
    ]
    var harness = KillHarness(executable: FilePath(program), directory: ground, seed: seed) {
      ["drive", $0.string] + options
    }
    harness.timeoutMilliseconds = timeout * 1000
    harness.replayCommand = replay(seed)
    return harness
  }

  /// Returns the command that repeats the run, in another directory: this one is kept.
  func replay(_ seed: UInt64) -> String {
    var words = ["moraine crash-test kills --kills \(kills) --seed \(seed)"]
    words.append("--durability \(durability) --io \(io)")
    if timeout != Self.timeoutDefault { words.append("--timeout \(timeout)") }
    if let directory {
      var place = directory + "-again"
      while FileManager.default.fileExists(atPath: place) { place += "-again" }
      words.append("--directory \(Text.shellQuoted(place))")
    }
    return words.joined(separator: " ")
  }

  private static func temporaryDirectory() -> String {
    let name = "moraine-kill-\(UUID().uuidString)"
    return FileManager.default.temporaryDirectory.appendingPathComponent(name).path
  }

  private static func progress(_ report: KillReport, of kills: Int) -> String {
    let seconds = max(0.001, Double(report.elapsedMilliseconds) / 1000)
    let rate = Double(report.killCount) / seconds
    let left = rate > 0 ? ", \(Units.clock(Double(kills - report.killCount) / rate)) left" : ""
    return "\(Units.number(UInt64(report.killCount))) of \(Units.number(UInt64(kills))) kills, "
      + "\(Units.number(UInt64(report.acknowledgedCount))) acknowledged, "
      + "\(Int(rate)) kills/s\(left)"
  }

  private func print(_ report: KillReport, _ failure: KillFailure?) throws(Failure) {
    guard json else {
      if let failure {
        try Output.line("VIOLATION \(failure)\n\(report)")
      } else {
        try Output.line("\(report): nothing lost, nothing invented")
      }
      return
    }
    let object: JSONObject = [
      "isSound": failure == nil, "seed": report.seed, "durability": durability.rawValue,
      "io": io.rawValue, "killCount": report.killCount, "earlyKillCount": report.earlyKillCount,
      "orderlyEndCount": report.orderlyEndCount, "acknowledgedCount": report.acknowledgedCount,
      "survivedCount": report.survivedCount, "vanishedCount": report.vanishedCount,
      "medianRestartMicroseconds": report.medianRestartMicroseconds,
      "longestRestartMicroseconds": report.longestRestartMicroseconds,
      "elapsedMilliseconds": report.elapsedMilliseconds, "failure": failure?.cause.name,
      "message": failure?.cause.description, "errorOutput": failure?.errorOutput,
      "replayCommand": failure?.replayCommand,
    ]
    try Output.line(object.json)
  }
}

extension KillFailure {
  /// Exit code: 5 if nothing could be tested, which says nothing about the store; otherwise 3.
  fileprivate var exitCode: Int32 {
    switch cause {
    case .notStarted, .cancelled: 5
    default: 3
    }
  }
}
