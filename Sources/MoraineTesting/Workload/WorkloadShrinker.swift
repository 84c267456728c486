/// Makes a failing workload shorter, as long as it still fails.
///
/// Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
/// IEEE TSE 2002): leaves out halves, then quarters, then less.
public struct WorkloadShrinker: Sendable {
  /// How many attempts it may make.
  public var attemptLimit: Int
  /// Begins no attempt after so many seconds.
  public var timeLimitSeconds: Double

  /// - Parameters:
  ///   - attemptLimit: how many attempts it may make.
  ///   - timeLimitSeconds: after so many seconds it begins no other.
  public init(attemptLimit: Int = 200, timeLimitSeconds: Double = 60) {
    self.attemptLimit = attemptLimit
    self.timeLimitSeconds = timeLimitSeconds
  }

  /// - Parameters:
  ///   - steps: what fails.
  ///   - fails: whether fewer steps still show what is looked for.
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
