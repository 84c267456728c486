import MoraineEngine

/// A piece of the laboratory's work that one process does in one go.
package struct LaboratoryUnit: Hashable, Codable, Sendable {
  package enum Kind: String, Codable, CaseIterable, Sendable {
    /// A short workload, crashed at every call.
    case crashes
    /// A long workload, crashed at a few calls.
    case workloads
    /// A short workload for each of its calls, with a fault at it.
    case faults
  }

  package var kind: Kind
  package var scenario: String
  package var seed: UInt64
  /// Instead of the scenario's own: `sync`, `interval` or `none`.
  package var durability: String?
  /// For faults: a place among ``FaultLaboratory/effects``.
  package var effect = 0
  package var isForEver = false

  package init(_ kind: Kind, _ scenario: String, seed: UInt64, durability: String? = nil) {
    self.kind = kind
    self.scenario = scenario
    self.seed = seed
    self.durability = durability
  }

  /// The command that does this piece again.
  package var replay: String {
    let change = durability.map { " --durability \($0)" } ?? ""
    return "moraine crash-test \(kind.rawValue) --scenario \(scenario) --seed \(seed) --count 1"
      + change
  }

  /// - Parameter progress: called now and then, as a sign of life.
  /// - Returns: how much was tried and what was found; nil when there is no such scenario.
  package func run(
    progress: @escaping @Sendable () -> Void
  ) async -> (tally: CrashTally, violation: CrashViolation?)? {
    guard var scenario = CrashScenario.named(scenario) else { return nil }
    switch durability {
    case "sync": scenario.configuration.durability = .sync
    case "interval": scenario.configuration.durability = .interval(.milliseconds(1))
    case "none": scenario.configuration.durability = .none
    default: break
    }
    var (tally, violation) = await run(scenario, progress)
    violation?.replay = replay
    return (tally, violation)
  }

  private func run(
    _ scenario: CrashScenario, _ progress: @escaping @Sendable () -> Void
  ) async -> (CrashTally, CrashViolation?) {
    var laboratory = CrashLaboratory()
    laboratory.progress = progress
    switch kind {
    case .crashes: return await laboratory.run(scenario, seed: seed)
    case .workloads:
      var long = scenario
      long.shape.stepCount = 200
      (laboratory.subsetsPerPoint, laboratory.tornPerPoint) = (1, 1)
      (laboratory.pointPeriod, laboratory.killPeriod) = (150, 2)
      return await laboratory.run(long, seed: seed)
    case .faults:
      let effect = FaultLaboratory.effects[effect % FaultLaboratory.effects.count]
      var laboratory = FaultLaboratory()
      laboratory.progress = progress
      return await laboratory.run(scenario, seed: seed, effect, isForEver: isForEver)
    }
  }
}
