#if Command
  /// The reason for which a run of ``KillHarness`` ended before its last kill.
  public struct KillFailure: Error, Sendable, CustomStringConvertible {
    /// The kinds of failures.
    public enum Cause: Sendable, Equatable {
      /// An acknowledged operation does not exist.
      case lost(String)
      /// The store contains data that was never written, or a part of an operation.
      case invented(String)
      /// A signal that the harness did not send ended the process: a trap, or SIGKILL (9) from
      /// another sender, for example when the machine is short of memory.
      case trapped(signal: Int32)
      /// The process ended before it was asked to, or with an exit code other than 0.
      case exited(code: Int32)
      /// The process did not answer, or did not end, within the timeout of the harness. It was
      /// killed.
      case hung(milliseconds: Int)
      /// The script does not permit the answer, a line had no end, or no check had a finding.
      case protocolError(String)
      /// The program wrote, changed or removed files outside its folder.
      case wroteOutside([String])
      /// The program or its folder could not be set up. This failure says nothing about the
      /// program.
      case notStarted(String)
      /// The task that runs the harness was cancelled.
      case cancelled
    }

    /// Kind of the failure.
    public let cause: Cause
    /// Seed of the harness.
    public let seed: UInt64
    /// Number of kills before the failure.
    public let killCount: Int
    /// The command that runs the same again: the same operations and moments, though a moment is
    /// not repeated to the instruction.
    public let replayCommand: String
    /// The end of what the process wrote to standard error.
    public let errorOutput: String
    /// What was done until then.
    public let report: KillReport

    public var description: String {
      var text = "after \(killCount) kills: \(cause.description)"
      if !errorOutput.isEmpty { text += "\nstandard error ended: \(errorOutput)" }
      return text + "\nseed \(seed); replay: \(replayCommand)"
    }
  }

  extension KillFailure.Cause: CustomStringConvertible {
    public var description: String {
      switch self {
      case .lost(let text): "acknowledged, but lost: \(text)"
      case .invented(let text): "found, but never written: \(text)"
      case .trapped(let signal):
        "signal \(signal), which the harness did not send, ended the process"
      case .exited(let code): "the process ended by itself with exit code \(code)"
      case .hung(let milliseconds): "no answer within \(milliseconds) ms"
      case .protocolError(let text): "wrong answer: \(text)"
      case .wroteOutside(let names):
        "changed outside the program's folder: \(names.joined(separator: ", "))"
      case .notStarted(let text): "could not start: \(text)"
      case .cancelled: "cancelled"
      }
    }

    /// A word for programs: `lost`, `invented`, `trapped` and so on.
    public var name: String {
      switch self {
      case .lost: "lost"
      case .invented: "invented"
      case .trapped: "trapped"
      case .exited: "exited"
      case .hung: "hung"
      case .protocolError: "protocolError"
      case .wroteOutside: "wroteOutside"
      case .notStarted: "notStarted"
      case .cancelled: "cancelled"
      }
    }

    init(_ violation: KillViolation) {
      switch violation.kind {
      case .lost: self = .lost(violation.description)
      case .invented: self = .invented(violation.description)
      case .badAnswer: self = .protocolError(violation.description)
      }
    }
  }
#endif
