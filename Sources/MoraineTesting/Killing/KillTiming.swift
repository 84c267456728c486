#if Command
  /// Distribution of the moments at which processes are killed. The harness draws each moment with
  /// its seed.
  ///
  /// The defaults spread the kills over the whole run of a process: starting and recovering,
  /// working, closing. The seed repeats the draws, but not the instruction that a kill interrupts.
  public struct KillTiming: Sendable {
    /// Share of the kills that interrupt the start.
    public var startShare = 0.2
    /// Time from the start of the process to such a kill.
    public var startMicroseconds = 0...30_000
    /// Share of the kills that come while the program closes; unused when the script cannot close
    /// the program.
    public var closingShare = 0.1
    /// Time from the request to close to such a kill.
    public var closingMicroseconds = 0...4_000
    /// Number of answers after which the other kills come, and after which the closing begins.
    public var answers = 0...200
    /// Time from sending the commands that follow these answers to the kill.
    public var answerMicroseconds = 0...1_000
    /// Number of commands that wait for their answers, drawn for each process. With 1 the program
    /// mostly waits for the harness; with a large number it is always performing a command.
    public var pipelinedCommands = 1...64

    /// Spreads the kills over the whole run of a process.
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
#endif
