/// What a run of ``KillHarness`` has done so far, or in all.
public struct KillReport: Sendable, CustomStringConvertible {
  /// Repeats the commands and the moments of the kills.
  public let seed: UInt64
  /// Processes ended by SIGKILL.
  public internal(set) var killCount = 0
  /// Number of the processes that were killed before they were checked, while they started or
  /// recovered.
  public internal(set) var earlyKillCount = 0
  /// Processes that closed in order.
  public internal(set) var orderlyEndCount = 0
  /// Operations acknowledged.
  public internal(set) var acknowledgedCount = 0
  /// Operations that were in flight at a kill and are there.
  public internal(set) var survivedCount = 0
  /// Operations that were in flight at a kill and are not there.
  public internal(set) var vanishedCount = 0
  /// Wall-clock time of all.
  public internal(set) var elapsedMilliseconds = 0

  /// From the start of each process to its first answer, in microseconds.
  var restarts: [Int] = []

  init(seed: UInt64) {
    self.seed = seed
  }

  /// Half of the processes gave their first answer within this time.
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
