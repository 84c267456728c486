import MoraineEngine

extension FaultLaboratory {
  /// Strikes twice in one run: a call, and one of those that come after it then, with any of the
  /// faults. Trouble seldom comes alone, and what undoes the first failure may fail itself.
  ///
  /// - Parameters:
  ///   - scenario: the kind of work.
  ///   - seed: of the workload, and of the choice of pairs.
  ///   - effect: of the first.
  ///   - isPermanent: whether one of the two lasts: either comes up.
  ///   - count: how many pairs are tried, drawn from the seed; all, when there are no more.
  /// - Returns: how much was tried, and the first violation.
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
    // About: how many calls come after a fault is known when it has struck.
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
  /// What comes after each first fault that was tried.
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

  /// - Returns: nil when hardly a fault has calls after it.
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
    // What is wrong with one fault alone is found where there is one alone.
    do { try await run.run(workload.steps) } catch { return [] }
    known[first] = run.injector.laterCalls
    return run.injector.laterCalls
  }
}
