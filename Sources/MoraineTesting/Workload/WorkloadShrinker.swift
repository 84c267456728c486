/// Shortens a failing workload while it still fails.
///
/// Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
/// IEEE TSE 2002): it leaves out halves, then quarters, then smaller parts.
public struct WorkloadShrinker: Sendable {
  /// Maximum number of attempts.
  public var attemptLimit: Int
  /// Time after which no further attempt begins, in seconds.
  public var timeLimitSeconds: Double

  /// Creates a shrinker.
  ///
  /// - Parameters:
  ///   - attemptLimit: the maximum number of attempts.
  ///   - timeLimitSeconds: the time after which no further attempt begins.
  public init(attemptLimit: Int = 200, timeLimitSeconds: Double = 60) {
    self.attemptLimit = attemptLimit
    self.timeLimitSeconds = timeLimitSeconds
  }

  /// Returns the fewest steps found that still fail.
  ///
  /// - Parameters:
  ///   - steps: the failing workload.
  ///   - fails: returns whether the given steps still fail in the same way.
  public func shrink<Step>(
    _ steps: [Step], _ fails: ([Step]) async -> Bool
  ) async -> [Step] {
    var steps = steps
    var parts = 2
    var attempts = 0
    let deadline = ContinuousClock.now + .seconds(timeLimitSeconds)
    func hasEnded() -> Bool { attempts >= attemptLimit || .now > deadline }
    while steps.count > 1, !hasEnded() {
      let length = max(1, (steps.count + parts - 1) / parts)
      var hasShrunk = false
      for start in stride(from: 0, to: steps.count, by: length).reversed()
      where !hasEnded() {
        var fewer = steps
        fewer.removeSubrange(start..<min(start + length, steps.count))
        attempts += 1
        guard !fewer.isEmpty, await fails(fewer) else { continue }
        steps = fewer
        hasShrunk = true
        break
      }
      if hasShrunk {
        parts = max(2, parts - 1)
      } else if length == 1 {
        break
      } else {
        parts = min(parts * 2, steps.count)
      }
    }
    return steps
  }
}
