import MoraineEngine

/// A part of the laboratory's work that one process does without interruption.
package struct LaboratoryUnit: Hashable, Codable, Sendable {
  package enum Kind: String, Codable, CaseIterable, Sendable {
    /// A short workload with a crash at each call.
    case crashes
    /// A long workload with a crash at a few calls.
    case workloads
    /// A short workload, run once for each of its calls, with a fault at that call.
    case faults
  }

  package var kind: Kind
  package var scenario: String
  package var seed: UInt64
  /// Replaces the scenario's durability: `sync`, `interval` or `none`.
  package var durability: String?
  /// These three replace the figures of ``CrashLaboratory``; used by crashes.
  package var nestingPeriod: Int?
  package var subsetsPerPoint: Int?
  package var tornPerPoint: Int?
  /// An index into ``FaultLaboratory/effects``; used by faults.
  package var effect = 0
  package var isPermanent = false
  /// The number of pairs of faults; nil for one fault at each call. Used by faults.
  package var pairCount: Int?
  /// If not empty, the unit is one run with exactly these faults.
  package var faults: [PlannedFault] = []

  package init(_ kind: Kind, _ scenario: String, seed: UInt64, durability: String? = nil) {
    self.kind = kind
    self.scenario = scenario
    self.seed = seed
    self.durability = durability
  }

  /// Does the work of the unit.
  ///
  /// - Parameter onProgress: called often, so that a watchdog knows slow from hanging.
  /// - Returns: the counts and the violation found; nil when no scenario has this name.
  package func run(
    onProgress: @escaping @Sendable () -> Void
  ) async -> (tally: CrashTally, violation: CrashViolation?)? {
    guard var scenario = CrashScenario.named(scenario) else { return nil }
    switch durability {
    case "sync": scenario.configuration.durability = .sync
    case "interval": scenario.configuration.durability = .interval(.milliseconds(1))
    case "none": scenario.configuration.durability = .none
    default: break
    }
    var (tally, violation) = await run(scenario, onProgress)
    if let found = violation { violation?.replay = unit(of: found).replay }
    return (tally, violation)
  }

  /// The smallest unit that shows the violation again.
  func unit(of violation: CrashViolation) -> LaboratoryUnit {
    guard !violation.faults.isEmpty else { return self }
    var unit = LaboratoryUnit(.faults, scenario, seed: seed, durability: durability)
    unit.faults = violation.faults
    return unit
  }

  private func run(
    _ scenario: CrashScenario, _ onProgress: @escaping @Sendable () -> Void
  ) async -> (CrashTally, CrashViolation?) {
    var laboratory = CrashLaboratory()
    laboratory.onProgress = onProgress
    switch kind {
    case .crashes:
      laboratory.nestingPeriod = nestingPeriod ?? laboratory.nestingPeriod
      laboratory.subsetsPerPoint = subsetsPerPoint ?? laboratory.subsetsPerPoint
      laboratory.tornPerPoint = tornPerPoint ?? laboratory.tornPerPoint
      return await laboratory.run(scenario, seed: seed)
    case .workloads:
      var long = scenario
      long.shape.stepCount = 200
      // Many seeds find more here than many crashes of one seed: the short workloads already crash
      // at every call.
      (laboratory.subsetsPerPoint, laboratory.tornPerPoint) = (1, 1)
      laboratory.pointLimit = 4
      let isThorough = seed.isMultiple(of: 50)
      (laboratory.killPeriod, laboratory.nestingPeriod) = isThorough ? (1, 7) : (0, 0)
      return await laboratory.run(long, seed: seed)
    case .faults:
      var laboratory = FaultLaboratory()
      laboratory.onProgress = onProgress
      if !faults.isEmpty { return await laboratory.run(scenario, seed: seed, faults) }
      let effect = FaultLaboratory.effects[effect % FaultLaboratory.effects.count]
      guard let pairCount else {
        return await laboratory.run(scenario, seed: seed, effect, isPermanent: isPermanent)
      }
      return await laboratory.runPairs(
        scenario, seed: seed, effect, isPermanent: isPermanent, count: pairCount)
    }
  }
}

extension LaboratoryUnit {
  /// The command that repeats exactly this unit.
  package var replay: String {
    var words = ["moraine crash-test \(kind.rawValue) --scenario \(scenario)"]
    words.append("--seed \(seed) --count 1")
    if let durability { words.append("--durability \(durability)") }
    if let nestingPeriod { words.append("--nesting-period \(nestingPeriod)") }
    if let subsetsPerPoint { words.append("--subsets \(subsetsPerPoint)") }
    if let tornPerPoint { words.append("--torn \(tornPerPoint)") }
    if kind == .faults, faults.isEmpty {
      let name = FaultLaboratory.effects[effect % FaultLaboratory.effects.count].name
      words.append("--effect \(name) --lasting \(isPermanent)")
      if let pairCount { words.append("--pairs \(pairCount)") }
    }
    words += faults.map { "--fault \($0)" }
    return words.joined(separator: " ")
  }
}
