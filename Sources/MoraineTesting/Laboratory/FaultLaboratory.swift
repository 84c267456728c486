import MoraineEngine

/// Runs scenarios once for each of their calls, with a fault at that call, or with two faults.
public struct FaultLaboratory: Sendable {
  /// All kinds of faults, including those that last.
  public static let effects: [DiskFault.Effect] = [
    .ioError, .noSpace, .tooManyOpenFiles, .short(lengthBytes: 30), .interrupted, .dropsUnsynced,
  ]

  /// The laboratory calls this before each run, so that a watchdog knows slow from hanging.
  public var onProgress: (@Sendable () -> Void)?

  /// Creates a laboratory that does not report its progress.
  public init() {}

  /// Runs the scenario's workload once for each of its calls, with a fault at that call.
  ///
  /// - Returns: the counts, and the first violation.
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

  /// Runs the workload once with the given faults.
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
    onProgress?()
    // Whether a call occurs can depend on the clock. If it did not occur, the run is repeated.
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

/// The steps that each run repeats with different faults.
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

  /// Runs the workload without faults and returns its calls.
  ///
  /// - Throws: the failure, if the workload fails without a fault.
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

extension FaultLaboratory {
  /// Runs the scenario's workload with two faults: one at a call, and any fault at a later call.
  /// The code that handles the first failure meets the second.
  ///
  /// - Parameters:
  ///   - scenario: the kind of work.
  ///   - seed: seeds the workload and the choice of pairs.
  ///   - effect: the first fault.
  ///   - isPermanent: whether one of the two faults lasts; both cases occur.
  ///   - count: the number of pairs, drawn from the seed. All pairs, when there are fewer.
  /// - Returns: the counts, and the first violation.
  public func runPairs(
    _ scenario: CrashScenario, seed: UInt64, _ effect: DiskFault.Effect, isPermanent: Bool,
    count: Int
  ) async -> (tally: CrashTally, violation: CrashViolation?) {
    let workload = FaultWorkload(scenario, seed: seed)
    var tally = CrashTally()
    let calls: [StorageCall]
    do { calls = try await workload.calls() } catch {
      return (tally, workload.violation([], "\(error)"))
    }
    var pairs = FaultPairs(workload, effect, isPermanent: isPermanent)
    // An estimate: the number of calls after a fault is known only once the fault has struck.
    let total = calls.count * (calls.count - 1) / 2 * Self.effects.count * (isPermanent ? 2 : 1)
    if total <= count {
      for call in calls {
        for pair in await pairs.all(at: call) {
          if let violation = await strike(pair, workload, &tally) { return (tally, violation) }
        }
      }
      return (tally, nil)
    }
    let place = Self.effects.firstIndex(of: effect) ?? 0
    var random = SeededGenerator(seed: seed &* 31 &+ UInt64(place * 2 + (isPermanent ? 1 : 0)))
    for _ in 0..<count {
      guard let pair = await pairs.draw(from: calls, &random) else { break }
      if let violation = await strike(pair, workload, &tally) { return (tally, violation) }
    }
    return (tally, nil)
  }
}

/// The pairs of faults that a workload can meet.
private struct FaultPairs {
  private let workload: FaultWorkload
  private let effect: DiskFault.Effect
  private let isPermanent: Bool
  /// The calls that follow each first fault tried so far.
  private var known: [PlannedFault: [StorageCall]] = [:]

  init(_ workload: FaultWorkload, _ effect: DiskFault.Effect, isPermanent: Bool) {
    self.workload = workload
    self.effect = effect
    self.isPermanent = isPermanent
  }

  mutating func all(at call: StorageCall) async -> [[PlannedFault]] {
    var pairs: [[PlannedFault]] = []
    for isFirstLasting in isPermanent ? [true, false] : [false] {
      let first = PlannedFault(effect: effect, isPermanent: isFirstLasting, call: call)
      for later in await calls(after: first) {
        pairs += FaultLaboratory.effects.map { second in
          [first, fault(second, after: first, at: later)]
        }
      }
    }
    return pairs
  }

  /// - Returns: nil when almost no fault has calls after it.
  mutating func draw(
    from calls: [StorageCall], _ random: inout SeededGenerator
  ) async -> [PlannedFault]? {
    for _ in 0..<1000 {
      guard let call = calls.randomElement(using: &random) else { return nil }
      let isFirstLasting = isPermanent && Bool.random(using: &random)
      let first = PlannedFault(effect: effect, isPermanent: isFirstLasting, call: call)
      guard let later = await self.calls(after: first).randomElement(using: &random),
        let second = FaultLaboratory.effects.randomElement(using: &random)
      else { continue }
      return [first, fault(second, after: first, at: later)]
    }
    return nil
  }

  private func fault(
    _ effect: DiskFault.Effect, after first: PlannedFault, at call: StorageCall
  ) -> PlannedFault {
    PlannedFault(effect: effect, isPermanent: isPermanent && !first.isPermanent, call: call)
  }

  private mutating func calls(after first: PlannedFault) async -> [StorageCall] {
    if let calls = known[first] { return calls }
    let run = FaultRun(workload.scenario, [first])
    // A run with one fault reports what one fault breaks.
    do { try await run.run(workload.steps) } catch { return [] }
    known[first] = run.injector.laterCalls
    return run.injector.laterCalls
  }
}
