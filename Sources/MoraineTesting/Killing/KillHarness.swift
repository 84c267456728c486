import Foundation
public import SystemPackage

/// Kills a real process with SIGKILL, again and again, on one folder that accumulates, and checks
/// after each kill that everything acknowledged is there and nothing else.
///
/// Point it at your own program to test its recovery:
///
/// ```swift
/// let harness = KillHarness(
///   executable: "/path/to/program", directory: "/tmp/kill-test", seed: 1
/// ) { folder in ["--data", folder.string] }
/// let report = try await harness.run(MyScript(), kills: 200)
/// ```
///
/// `MyScript` is a ``KillScript``: it makes the program's commands, reads its answers, and checks
/// the state after each kill. The program gets a folder of its own, `subject` in ``directory``,
/// which is empty at first. It runs as a process group of its own, and the whole group is killed.
///
/// A program that traps, ends early, hangs, answers nonsense, or writes outside its folder ends the
/// run with a ``KillFailure`` that says so. The harness waits for nothing longer than
/// ``timeoutMilliseconds``, unless the operating system cannot end the process at all.
///
/// What is noticed outside the folder: whatever is added, changed or removed in ``directory``,
/// which is also the program's working directory, and the folder itself replaced by another. Not
/// noticed: files elsewhere (temporary directory, home), and files outside that were put back as
/// they were.
///
/// SIGKILL takes the process and leaves the operating system, so nothing is tested here about power
/// failures; the simulated disk is for these.
///
/// The first run sets the calling process to ignore SIGPIPE, where it was not handled.
public struct KillHarness: Sendable {
  /// The program.
  public var executable: FilePath
  /// Where the program's folder is made. It must not hold one yet; it stays after the run.
  public var directory: FilePath
  /// The program's arguments, for its folder.
  public var arguments: @Sendable (_ folder: FilePath) -> [String]
  /// Set for the program, beside what the calling process has.
  public var environment: [String: String] = ["SWIFT_BACKTRACE": "enable=no"]
  /// Repeats the commands and the moments of the kills.
  public var seed: UInt64
  /// When the kills come.
  public var timing = KillTiming()
  /// The longest wait for an answer, or for an end that was asked for.
  public var timeoutMilliseconds = 30_000
  /// The longest line of output that is still a line.
  public var lineLimitBytes = 16 << 20
  /// What a failure prints for repeating it; made of the seed and the program where it is nil.
  public var replayCommand: String?

  /// For a program that takes its folder as an argument.
  ///
  /// - Parameters:
  ///   - executable: the program's path.
  ///   - directory: where its folder and the watched surroundings are made.
  ///   - seed: repeats the commands and the moments of the kills.
  ///   - arguments: the program's, for the folder that it is to use.
  public init(
    executable: FilePath, directory: FilePath, seed: UInt64,
    arguments: @escaping @Sendable (_ folder: FilePath) -> [String]
  ) {
    self.executable = executable
    self.directory = directory
    self.seed = seed
    self.arguments = arguments
  }

  /// Runs until so many processes have been killed, then once more to an orderly end.
  ///
  /// - Parameters:
  ///   - script: what is said to the program, and what its answers mean.
  ///   - kills: how many processes are killed.
  ///   - progress: is called after each process.
  public func run<Script: KillScript>(
    _ script: Script, kills: Int, progress: (KillReport) -> Void = { _ in }
  ) async throws(KillFailure) -> KillReport {
    Self.ignoreClosedPipes()
    let run = KillRun(self, script)
    return try await run.run(kills: kills, progress: progress)
  }

  /// A write to a process that has just been killed would otherwise end this one too.
  private static func ignoreClosedPipes() {
    // Nil is SIG_DFL. A handler that the program has set stays.
    if let handler = signal(SIGPIPE, SIG_IGN) { signal(SIGPIPE, handler) }
  }
}
