import MoraineEngine

/// Runs scenarios once for each of their calls, with a fault at that call, or with two faults.
public struct FaultLaboratory: Sendable {
  /// All kinds of faults, those that last included.
  public static let effects: [DiskFault.Effect] = [
    .ioError, .noSpace, .tooManyOpenFiles, .short(lengthBytes: 30), .interrupted, .dropsUnsynced,
  ]

  /// Called now and then, as a sign of life.
  public var progress: (@Sendable () -> Void)?

  /// Creates a laboratory that does not report its progress.
  public init() {}

  /// Strikes each call that a workload of the scenario makes.
  ///
  /// - Returns: how much was tried, and the first violation.
  public func run(
    _ scenario: CrashScenario, seed: UInt64, _ effect: DiskFault.Effect, isPermanent: Bool
  ) async -> (tally: CrashTally, violation: CrashViolation?) {
    let workload = FaultWorkload(scenario, seed: seed)
    var tally = CrashTally()
    let calls: [StorageCall]
    do { calls = try await workload.calls() } catch {
      return (tally, workload.violation([], "\(error)"))
    }
    for call in calls {
      let fault = PlannedFault(effect: effect, isPermanent: isPermanent, call: call)
      if let violation = await strike([fault], workload, &tally) { return (tally, violation) }
    }
    return (tally, nil)
  }

  /// Does the workload once, with these faults.
  package func run(
    _ scenario: CrashScenario, seed: UInt64, _ faults: [PlannedFault]
  ) async -> (tally: CrashTally, violation: CrashViolation?) {
    var tally = CrashTally()
    let violation = await strike(faults, FaultWorkload(scenario, seed: seed), &tally)
    return (tally, violation)
  }

  func strike(
    _ faults: [PlannedFault], _ workload: FaultWorkload, _ tally: inout CrashTally
  ) async -> CrashViolation? {
    tally.faultRuns += 1
    progress?()
    // What the clock decides may keep a call from coming; then it is tried again.
    for _ in 0..<50 {
      let run = FaultRun(workload.scenario, faults)
      do { try await run.run(workload.steps) } catch {
        var violation = workload.violation(faults, "\(error)")
        violation.image = run.image
        return violation
      }
      if run.injector.hasStruckWithAll { return nil }
    }
    tally.missedCalls += 1
    tally.missed.append(workload.violation(faults, "not reached").replay)
    return nil
  }
}

/// The steps that are repeated with ever other faults.
struct FaultWorkload {
  let scenario: CrashScenario
  let seed: UInt64
  let steps: [WorkloadStep]

  init(_ scenario: CrashScenario, seed: UInt64) {
    var scenario = scenario
    scenario.isSerial = true
    self.scenario = scenario
    self.seed = seed
    steps = scenario.shape.steps(seed: seed)
  }

  /// The calls that it makes when nothing fails.
  ///
  /// - Throws: what went wrong all the same.
  func calls() async throws -> [StorageCall] {
    let quiet = FaultRun(scenario, [])
    try await quiet.run(steps)
    return quiet.injector.calls
  }

  func violation(_ faults: [PlannedFault], _ finding: String) -> CrashViolation {
    var unit = LaboratoryUnit(.faults, scenario.name, seed: seed)
    unit.faults = faults
    let circumstances = faults.map(\.circumstances).joined(separator: ", and ")
    var violation = CrashViolation(
      scenario: scenario.name, seed: seed,
      circumstances: faults.isEmpty ? "without any fault" : circumstances,
      finding: finding, replay: unit.replay)
    violation.faults = faults
    return violation
  }
}
