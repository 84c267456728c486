import MoraineEngine

/// Runs scenarios, crashes them at every call that changes the disk, and judges what is left.
///
/// After the systematic exploration of crash states of Pillai et al. ("All File Systems Are Not
/// Created Equal", OSDI 2014) and Mohan et al. ("Finding Crash-Consistency Bugs with Bounded
/// Black-Box Crash Testing", OSDI 2018).
public struct CrashLaboratory: Sendable {
  /// How many combinations of surviving pages and names are tried at each crash point; all, when
  /// there are no more.
  public var subsetsPerPoint = 50
  /// How many images with pages torn between sectors are tried at each crash point.
  public var tornPerPoint = 10
  /// Every so many images the next crash comes during recovery, and again during the recovery from
  /// that; 0 for never.
  public var nestingPeriod = 97
  /// Every so many crash points the process dies first and the machine later: the next process
  /// opens what the first one left in the cache and writes, and a power failure comes while it
  /// does, or after; 0 for never.
  public var killPeriod = 17
  /// Every so many crash points are tried; 1 for all.
  public var pointPeriod = 1
  /// At most so many crash points of a workload are tried, spread over it, in each seed others; nil
  /// for no limit.
  public var pointLimit: Int?

  /// Called now and then, as a sign of life.
  public var progress: (@Sendable () -> Void)?

  /// Tries a good deal at each point, and nesting now and then.
  public init() {}

  /// Runs one workload of a scenario and tries its crashes.
  ///
  /// - Returns: how much was tried, and the first violation, its workload made as short as it gets.
  public func run(
    _ scenario: CrashScenario, seed: UInt64
  ) async -> (tally: CrashTally, violation: CrashViolation?) {
    let steps = scenario.shape.steps(seed: seed)
    var tally = CrashTally()
    guard var violation = await attempt(scenario, seed, steps, &tally) else { return (tally, nil) }
    var effort = CrashTally()
    let fewest = await WorkloadShrinker(attemptLimit: 150).shrink(steps) { fewer in
      await attempt(scenario, seed, fewer, &effort) != nil
    }
    violation.steps = fewest.map(\.description)
    return (tally, violation)
  }

  func attempt(
    _ scenario: CrashScenario, _ seed: UInt64, _ steps: [WorkloadStep], _ tally: inout CrashTally
  ) async -> CrashViolation? {
    var choice = CrashPointChoice(period: pointPeriod)
    if let pointLimit { (choice.limit, choice.phase) = (pointLimit, Int(seed % 1021)) }
    let run = ScenarioRun(scenario, steps, choice, isDirectoryMade: seed.isMultiple(of: 2))
    let points: [CrashPoint]
    do { points = try await run.run() } catch {
      return violation(scenario, seed, "without any crash", "\(error)")
    }
    let judge = CrashJudge(
      scenario: scenario, model: run.model, nestingPeriod: nestingPeriod)
    tally.steps += steps.count
    var seen: Set<JudgedImage> = []
    for point in points {
      tally.crashPoints += 1
      guard let found = await judge.finding(at: point, seed, self, &seen, &tally) else { continue }
      let step = steps.indices.contains(point.step) ? "\(steps[point.step])" : "the end"
      var violation = violation(
        scenario, seed,
        "crash \(point.number) during step \(point.step) (\(step)), \(found.circumstances)",
        found.finding)
      violation.image = found.image
      return violation
    }
    return nil
  }

  private func violation(
    _ scenario: CrashScenario, _ seed: UInt64, _ circumstances: String, _ finding: String
  ) -> CrashViolation {
    CrashViolation(
      scenario: scenario.name, seed: seed, circumstances: circumstances, finding: finding,
      replay: "moraine crash-test --scenario \(scenario.name) --seed \(seed) --count 1")
  }
}
