import MoraineEngine
import Testing

@testable import MoraineTesting

/// Two faults in one run: the second strikes the state that the first has caused.
@Suite struct FaultPairTests {
  private let scenario = CrashScenario.catalog.first { $0.name == "puts-positional" }

  private func call(_ number: Int, life: Int = 0) -> StorageCall {
    StorageCall(life: life, operation: .write, file: "f", number: number)
  }

  /// Returns the answers of an injector to writes to `f`, each as the errno or nil.
  private func answers(_ faults: [PlannedFault], _ count: Int) -> [Bool] {
    let injector = FaultInjector(faults)
    let script = injector.script(life: 0)
    return (0..<count).map { index in
      script(StorageEvent(index: index, operation: .write, file: "f")) != nil
    }
  }

  @Test func injectorStrikesEachPlannedCall() {
    let once = { PlannedFault(effect: .ioError, isPermanent: false, call: call($0)) }
    let lasting = PlannedFault(effect: .ioError, isPermanent: true, call: call(4))
    #expect(answers([once(2), once(3)], 5) == [false, true, true, false, false])
    #expect(answers([once(2), lasting], 5) == [false, true, false, true, true])
    let injector = FaultInjector([once(2), once(9)])
    let script = injector.script(life: 0)
    for index in 0..<4 { _ = script(StorageEvent(index: index, operation: .write, file: "f")) }
    #expect(injector.strikeCount == 1 && !injector.hasStruckWithAll)
    #expect(injector.laterCalls == [call(3), call(4)])
  }

  @Test(arguments: FaultLaboratory.effects, [true, false])
  func engineSurvivesTwoFaults(_ effect: DiskFault.Effect, _ isPermanent: Bool) async throws {
    let scenario = try #require(scenario)
    let (tally, violation) = await FaultLaboratory().runPairs(
      scenario, seed: 1, effect, isPermanent: isPermanent, count: 12)
    #expect(violation == nil)
    #expect(tally.faultRuns == 12)
    #expect(tally.missedCalls == 0)
  }

  /// A run without a single step has few calls: each call is paired with each later call.
  @Test func fewPairsAreAllTried() async throws {
    var scenario = try #require(scenario)
    scenario.shape.stepCount = 1
    let calls = try await FaultWorkload(scenario, seed: 1).calls()
    let most = calls.count * (calls.count - 1) / 2 * FaultLaboratory.effects.count
    let (tally, violation) = await FaultLaboratory().runPairs(
      scenario, seed: 1, .interrupted, isPermanent: false, count: most)
    #expect(violation == nil)
    #expect(tally.faultRuns >= calls.count)
    #expect(tally.missedCalls == 0)
  }

  /// The replay has the faults that led to the violation, and not the hundreds that were tried
  /// before.
  @Test func replayOfAViolationNamesItsFaults() throws {
    let scenario = try #require(scenario)
    let faults = [
      PlannedFault(effect: .ioError, isPermanent: false, call: call(3)),
      PlannedFault(effect: .short(lengthBytes: 30), isPermanent: true, call: call(1, life: 2)),
    ]
    let violation = FaultWorkload(scenario, seed: 5).violation(faults, "lost")
    let command = "moraine crash-test faults --scenario puts-positional --seed 5 --count 1"
    let named = " --fault eio,once,0,write,3,f --fault short30,lasting,2,write,1,f"
    #expect(violation.replay == command + named)
    var unit = LaboratoryUnit(.faults, scenario.name, seed: 5, durability: "sync")
    unit.pairCount = 10
    #expect(unit.unit(of: violation).replay == command + " --durability sync" + named)
    let none = FaultWorkload(scenario, seed: 5).violation([], "trapped")
    #expect(unit.unit(of: none) == unit)
  }

  @Test func onlyTheNamedFaultsAreTried() async throws {
    let scenario = try #require(scenario)
    let calls = try await FaultWorkload(scenario, seed: 1).calls()
    let write = try #require(calls.first { $0.operation == .write })
    let fault = PlannedFault(effect: .ioError, isPermanent: false, call: write)
    let (tally, violation) = await FaultLaboratory().run(scenario, seed: 1, [fault])
    #expect(violation == nil)
    #expect(tally.faultRuns == 1 && tally.missedCalls == 0)
    // A fault whose call never comes is no success.
    let never = PlannedFault(
      effect: .ioError, isPermanent: false,
      call: StorageCall(life: 0, operation: .write, file: "no such", number: 1))
    #expect(await FaultLaboratory().run(scenario, seed: 1, [never]).tally.missedCalls == 1)
  }
}
