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
      let (hasStruck, failure) = await strike(scenario, effect, isForEver, call, steps)
      if let failure {
        var violation = violation("\(call)", failure.error)
        violation.image = failure.image
        return (tally, violation)
      }
      if !hasStruck { tally.missedCalls += 1 }
    }
    return (tally, nil)
  }

  /// What the clock decides may keep a call from coming; then it is tried again.
  private func strike(
    _ scenario: CrashScenario, _ effect: DiskFault.Effect, _ isForEver: Bool, _ call: StorageCall,
    _ steps: [WorkloadStep]
  ) async -> (hasStruck: Bool, failure: (error: any Error, image: DiskImage)?) {
    for _ in 0..<50 {
      let run = FaultRun(scenario, effect, isForEver: isForEver, at: call)
      do { try await run.run(steps) } catch { return (true, (error, run.image)) }
      if run.striker.hasStruck { return (true, nil) }
    }
    return (false, nil)
  }
}
