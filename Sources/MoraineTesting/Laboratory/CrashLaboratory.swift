import MoraineEngine

/// A laboratory that runs scenarios, crashes them at every call that changes the disk, and checks
/// the disks that the crashes leave.
///
/// The systematic exploration of crash states follows Pillai et al. ("All File Systems Are Not
/// Created Equal", OSDI 2014) and Mohan et al. ("Finding Crash-Consistency Bugs with Bounded
/// Black-Box Crash Testing", OSDI 2018).
public struct CrashLaboratory: Sendable {
  /// Maximum number of combinations of surviving pages and names to try at each crash point. All
  /// combinations are tried if they are fewer; otherwise the seed selects.
  public var subsetsPerPoint = 50
  /// Number of disk images with pages torn between sectors to try at each crash point.
  public var tornPerPoint = 10
  /// Period of the images that crash again during recovery, and some of them once more during the
  /// recovery from that crash: 1 for every image, 0 for none.
  public var nestingPeriod = 97
  /// Period of the crash points at which the process dies first and the machine later: 1 for every
  /// crash point, 0 for none.
  ///
  /// At these points the next process opens the files that the first one left in the cache, and
  /// writes. A power failure occurs while it does so, or after it.
  public var killPeriod = 17
  /// Period of the crash points that are tried: 1 for every one, n for every n-th. At least 1.
  public var pointPeriod = 1
  /// Maximum number of crash points to try in one workload; nil for no limit.
  ///
  /// The tried points are spread over the workload, and each seed selects other points.
  public var pointLimit: Int?

  /// Called before the laboratory opens a disk image, so that a watchdog can see that it runs; not
  /// called for the images of further crashes.
  public var onProgress: (@Sendable () -> Void)?

  /// Creates a laboratory with the default figures.
  public init() {}

  /// Runs the workload of a scenario that a seed selects, and tries its crashes.
  ///
  /// - Parameters:
  ///   - scenario: the configuration and the shape of the workload.
  ///   - seed: selects the steps of the workload and the disks that are tried.
  /// - Returns: the numbers of what was tried, and the first violation, with the fewest steps that
  ///   were found to reproduce it; nil when there is no violation.
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
