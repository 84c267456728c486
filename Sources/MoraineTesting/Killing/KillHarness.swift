#if Command
  import Foundation
  public import SystemPackage

  /// Kills a real process with SIGKILL, many times, on one folder whose contents accumulate. After
  /// each kill it checks that the folder contains every acknowledged operation and no invented
  /// data.
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
  /// A program that traps, ends early, hangs, answers nonsense, or writes outside its folder ends
  /// the run with a ``KillFailure`` that says so. The harness waits for nothing longer than
  /// ``timeoutMilliseconds``, unless the operating system cannot end the process at all.
  ///
  /// The harness detects every entry that is added, changed or removed in ``directory``, which is
  /// also the working directory of the program, and a replacement of the program's folder. It does
  /// not detect changes elsewhere (temporary directory, home), or files outside that were restored
  /// to their earlier contents.
  ///
  /// SIGKILL ends the process; the operating system continues. The harness therefore tests no power
  /// failures. The simulated disk does.
  ///
  /// Needs the trait `Command`, which is on by default, because it starts processes with
  /// swift-subprocess.
  ///
  /// The first run makes the calling process ignore SIGPIPE, unless the process has a handler.
  public struct KillHarness: Sendable {
    /// Path of the program.
    public var executable: FilePath
    /// Directory in which the program's folder is created. It must not contain that folder yet. It
    /// stays after the run.
    public var directory: FilePath
    /// Returns the arguments of the program for its folder.
    public var arguments: @Sendable (_ folder: FilePath) -> [String]
    /// Environment variables of the program, in addition to those of the calling process.
    public var environment: [String: String] = ["SWIFT_BACKTRACE": "enable=no"]
    /// Seed that repeats the commands and the moments of the kills.
    public var seed: UInt64
    /// Distribution of the moments of the kills.
    public var timing = KillTiming()
    /// Maximum wait for an answer, or for an end that was requested, in milliseconds.
    public var timeoutMilliseconds = 30_000
    /// Maximum length of a line of output, in bytes.
    public var lineLimitBytes = 16 << 20
    /// Command that a failure prints to repeat the run; nil for one made of the seed and the
    /// program.
    public var replayCommand: String?

    /// Creates a harness for a program that receives its folder as an argument.
    ///
    /// - Parameters:
    ///   - executable: path of the program.
    ///   - directory: directory in which the folder of the program and the watched entries are
    ///     created.
    ///   - seed: repeats the commands and the moments of the kills.
    ///   - arguments: returns the arguments of the program for its folder.
    public init(
      executable: FilePath, directory: FilePath, seed: UInt64,
      arguments: @escaping @Sendable (_ folder: FilePath) -> [String]
    ) {
      self.executable = executable
      self.directory = directory
      self.seed = seed
      self.arguments = arguments
    }

    /// Runs processes until `kills` of them have been killed, then one more, which ends in order.
    ///
    /// - Parameters:
    ///   - script: makes the commands, and interprets the answers.
    ///   - kills: number of processes to kill.
    ///   - onProgress: called after each process.
    public func run<Script: KillScript>(
      _ script: Script, kills: Int, onProgress: (KillReport) -> Void = { _ in }
    ) async throws(KillFailure) -> KillReport {
      Self.ignoreClosedPipes()
      let run = KillRun(self, script)
      return try await run.run(kills: kills, onProgress: onProgress)
    }

    /// Prevents that a write to a process which was just killed ends this process too.
    private static func ignoreClosedPipes() {
      // Nil is SIG_DFL. A handler that the program has set stays.
      if let handler = signal(SIGPIPE, SIG_IGN) { signal(SIGPIPE, handler) }
    }
  }
#endif
