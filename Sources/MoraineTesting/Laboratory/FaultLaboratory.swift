import MoraineEngine

/// Runs scenarios once for each of their calls, with a fault at that call.
public struct FaultLaboratory: Sendable {
  /// All kinds of faults, those that last included.
  public static let effects: [DiskFault.Effect] = [
    .ioError, .noSpace, .tooManyOpenFiles, .short(lengthBytes: 30), .interrupted, .dropsUnsynced,
  ]

  /// Called now and then, as a sign of life.
  public var progress: (@Sendable () -> Void)?

  public init() {}

  /// - Returns: how much was tried, and the first violation.
  public func run(
    _ scenario: CrashScenario, seed: UInt64, _ effect: DiskFault.Effect, isForEver: Bool
  ) async -> (tally: CrashTally, violation: CrashViolation?) {
    var tally = CrashTally()
    var scenario = scenario
    scenario.isSerial = true
    let steps = scenario.shape.steps(seed: seed)
    func violation(_ call: String, _ error: any Error) -> CrashViolation {
      CrashViolation(
        scenario: scenario.name, seed: seed,
        circumstances: "\(effect) \(isForEver ? "from then on" : "once") at \(call)",
        finding: "\(error)",
        replay: "moraine crash-test faults --scenario \(scenario.name) --seed \(seed) --count 1")
    }
    let quiet = FaultRun(scenario, effect, isForEver: isForEver, at: nil)
    do { try await quiet.run(steps) } catch { return (tally, violation("no call", error)) }
    for call in quiet.striker.calls {
      tally.faultRuns += 1
      progress?()
      do {
        if try await !isStruck(scenario, effect, isForEver, call, steps) {
          tally.missedCalls += 1
        }
      } catch {
        return (tally, violation("\(call)", error))
      }
    }
    return (tally, nil)
  }

  /// What the clock decides may keep a call from coming; then it is tried again.
  private func isStruck(
    _ scenario: CrashScenario, _ effect: DiskFault.Effect, _ isForEver: Bool, _ call: StorageCall,
    _ steps: [WorkloadStep]
  ) async throws -> Bool {
    for _ in 0..<5 {
      let run = FaultRun(scenario, effect, isForEver: isForEver, at: call)
      try await run.run(steps)
      if run.striker.hasStruck { return true }
    }
    return false
  }
}
