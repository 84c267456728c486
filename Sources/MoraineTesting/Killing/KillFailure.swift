/// Why a run of ``KillHarness`` ended before its last kill.
public struct KillFailure: Error, Sendable, CustomStringConvertible {
  /// What went wrong.
  public enum Cause: Sendable, Equatable {
    /// An acknowledged operation is not there.
    case lost(String)
    /// Something is there that was never written, or half of an operation.
    case invented(String)
    /// A signal ended the process, and the harness has not sent it: a trap, or SIGKILL (9) by
    /// someone else, as when the machine is short of memory.
    case trapped(signal: Int32)
    /// The process ended by itself before it was asked to, or with an exit code other than 0.
    case exited(code: Int32)
    /// No answer, or no end, within the harness's timeout. The process has been killed.
    case hung(milliseconds: Int)
    /// An answer that the script does not permit, a line without an end, or a check without a
    /// finding.
    case protocolError(String)
    /// Files outside the program's folder were written, changed or removed.
    case wroteOutside([String])
    /// The program or its folder could not be set up. Nothing is said about the program.
    case notStarted(String)
    /// The task that runs the harness was cancelled.
    case cancelled
  }

  /// What went wrong.
  public let cause: Cause
  /// The harness's.
  public let seed: UInt64
  /// How many kills had been before.
  public let killCount: Int
  /// The command that runs the same again: the same operations and moments, though a moment is not
  /// repeated to the instruction.
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
    case .lost(let text): "acknowledged and lost: \(text)"
    case .invented(let text): "there and never written: \(text)"
    case .trapped(let signal): "the process was ended by signal \(signal), which is not ours"
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
