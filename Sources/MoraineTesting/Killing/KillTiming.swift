/// When processes are killed; each moment is drawn with the harness's seed.
///
/// The defaults spread the kills over all that a process does: starting and recovering, working,
/// closing. The seed repeats the draws, and not the instruction at which a kill hits.
public struct KillTiming: Sendable {
  /// The share of the kills that come so soon that they hit the start.
  public var startShare = 0.2
  /// For those, how long after the process has started.
  public var startMicroseconds = 0...30_000
  /// The share of the kills that come while the program closes. None where the script has no way to
  /// close it.
  public var closingShare = 0.1
  /// For those, how long after the program was asked to close.
  public var closingMicroseconds = 0...4_000
  /// After how many answers the others come, and the closing begins.
  public var answers = 0...200
  /// How long after the commands that follow these answers have been sent.
  public var answerMicroseconds = 0...1_000
  /// How many commands wait for their answers, drawn for each process. One is a dialogue, in which
  /// the program mostly waits for the harness; with many it is always in the midst of one.
  public var pipelinedCommands = 1...64

  /// Kills all over what a process does.
  public init() {}
}

/// The moment of one kill.
enum KillMoment: Sendable {
  case start(microseconds: Int)
  case answers(Int, microseconds: Int)
  case closing(answers: Int, microseconds: Int)

  init(_ timing: KillTiming, canClose: Bool, using generator: inout SeededGenerator) {
    let share = Double.random(in: 0..<1, using: &generator)
    let answers = Int.random(in: timing.answers, using: &generator)
    if share < timing.startShare {
      self = .start(microseconds: .random(in: timing.startMicroseconds, using: &generator))
    } else if canClose, share < timing.startShare + timing.closingShare {
      let pause = Int.random(in: timing.closingMicroseconds, using: &generator)
      self = .closing(answers: answers, microseconds: pause)
    } else {
      let pause = Int.random(in: timing.answerMicroseconds, using: &generator)
      self = .answers(answers, microseconds: pause)
    }
  }
}
