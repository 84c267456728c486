#if Command
  /// Figures of a run of ``KillHarness``, complete or so far.
  public struct KillReport: Sendable, CustomStringConvertible {
    /// Seed that repeats the commands and the moments of the kills.
    public let seed: UInt64
    /// Number of processes ended by SIGKILL.
    public internal(set) var killCount = 0
    /// Number of processes that were killed before they were checked, while they started or
    /// recovered.
    public internal(set) var earlyKillCount = 0
    /// Number of processes that closed in order.
    public internal(set) var orderlyEndCount = 0
    /// Number of acknowledged operations.
    public internal(set) var acknowledgedCount = 0
    /// Number of operations that were in flight at a kill and survived.
    public internal(set) var survivedCount = 0
    /// Number of operations that were in flight at a kill and did not survive.
    public internal(set) var vanishedCount = 0
    /// Wall-clock time of the run.
    public internal(set) var elapsedMilliseconds = 0

    /// Time from the start of each process to its first answer, in microseconds.
    var restarts: [Int] = []

    init(seed: UInt64) {
      self.seed = seed
    }

    /// Median of the times from the start of a process to its first answer.
    public var medianRestartMicroseconds: Int {
      restarts.sorted().dropFirst(restarts.count / 2).first ?? 0
    }
    /// The longest time from the start of a process to its first answer.
    public var longestRestartMicroseconds: Int { restarts.max() ?? 0 }

    public var description: String {
      let seconds = Double(elapsedMilliseconds / 100) / 10
      let median = Double(medianRestartMicroseconds / 100) / 10
      let longest = Double(longestRestartMicroseconds / 100) / 10
      return """
        \(killCount) kills (\(earlyKillCount) while starting), \(orderlyEndCount) orderly ends, in \
        \(seconds) s; \(acknowledgedCount) operations acknowledged; of those in flight at a kill \
        \(survivedCount) survived and \(vanishedCount) vanished; first answer after \(median) ms \
        (median), \(longest) ms (longest)
        """
    }
  }
#endif
