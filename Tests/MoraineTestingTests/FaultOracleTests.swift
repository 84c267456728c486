import MoraineEngine
import Testing

@testable import MoraineTesting

/// The fault laboratory accepts no lasting effect of a failure that has none.
@Suite struct FaultOracleTests {
  private func scenario(_ name: String) throws -> CrashScenario {
    try #require(CrashScenario.named(name))
  }

  /// Returns a run in its first life, in which one fault has struck a call.
  private func struck(
    _ operation: StorageEvent.Operation, life: Int = 0, isPermanent: Bool = false
  ) throws -> FaultRun {
    let call = StorageCall(life: life, operation: operation, file: "f", number: 1)
    let fault = PlannedFault(effect: .ioError, isPermanent: isPermanent, call: call)
    let run = FaultRun(try scenario("puts-positional"), [fault])
    let script = run.injector.script(life: life)
    _ = try #require(script(StorageEvent(index: 0, operation: operation, file: "f")))
    return run
  }

  /// Regression: every error with the number of the fault was right for the rest of the run, so a
  /// store that one harmless failure had poisoned passed.
  @Test func onlySyncsRenamesAndTruncationsMayPoison() async throws {
    let sync = DiskFault(.ioError, on: [.sync], file: "0000000001.segment", occurrence: 2)
    let store = try SimulatedDisk().openStore(faults: [sync])
    try await store.set([1], forKey: "a", durability: Durability.none)
    await #expect(throws: StoreError.self) {
      try await store.set([2], forKey: "b", durability: .sync)
    }
    #expect(store.poison != nil)
    for operation in StorageEvent.Operation.allCases {
      let run = try struck(operation)
      if operation.isSync || [.rename, .truncate].contains(operation) {
        try run.checkPoison(of: store)
      } else {
        #expect(throws: StepFailure.self) { try run.checkPoison(of: store) }
      }
    }
    // A sync that failed in another life explains nothing.
    let other = try struck(.synchronizeData, life: 1)
    #expect(throws: StepFailure.self) { try other.checkPoison(of: store) }
    // A fault that lasts may also strike a sync.
    try struck(.read, isPermanent: true).checkPoison(of: store)
  }

  /// Regression: a store that refused all writes after one failure passed until it was opened
  /// again.
  @Test func secondWriteAfterAFaultMustSucceed() throws {
    let error = StoreError(.io, "refused")
    let run = try struck(.allocate)
    // The fault struck during this write.
    run.countWrite(after: 0)
    try run.checkRefusal(error, 0)
    run.countWrite(after: 1)
    try run.checkRefusal(error, 1)
    run.countWrite(after: 1)
    #expect(throws: StepFailure.self) { try run.checkRefusal(error, 1) }
    let lasting = try struck(.allocate, isPermanent: true)
    for _ in 0..<3 { lasting.countWrite(after: 1) }
    try lasting.checkRefusal(error, 1)
  }

  /// Regression: a store that answered no more reads after one failure passed.
  @Test func secondReadAfterAFaultMustSucceed() throws {
    let error = StoreError(.io, "unreadable")
    let run = try struck(.read)
    // The fault struck during this read.
    run.countRead(after: 0)
    try run.checkRead(error, 0)
    run.countRead(after: 1)
    try run.checkRead(error, 1)
    // Writes are counted for themselves.
    run.countWrite(after: 1)
    run.countRead(after: 1)
    #expect(throws: StepFailure.self) { try run.checkRead(error, 1) }
    let lasting = try struck(.read, isPermanent: true)
    for _ in 0..<3 { lasting.countRead(after: 1) }
    try lasting.checkRead(error, 1)
  }

  @Test(
    arguments: [DiskFault.Effect.ioError, .noSpace, .tooManyOpenFiles],
    ["rotation-mapped", "rotation-positional"])
  func failedQueryOfTheFreeSpacePoisonsNothing(
    _ effect: DiskFault.Effect, name: String
  ) async throws {
    let scenario = try scenario(name)
    let calls = try await FaultWorkload(scenario, seed: 1).calls()
      .filter { $0.operation == .freeBytes }
    #expect(!calls.isEmpty)
    for call in calls {
      let fault = PlannedFault(effect: effect, isPermanent: false, call: call)
      let (tally, violation) = await FaultLaboratory().run(scenario, seed: 1, [fault])
      #expect(violation == nil, "\(call)")
      #expect(tally.missedCalls == 0)
    }
  }

  /// Regression: what a verification found was not looked at. After a read that failed, it reported
  /// damage.
  @Test(arguments: ["puts-positional", "rotation-positional"])
  func verificationThatMeetsAFaultReportsNoDamage(name: String) async throws {
    var scenario = try scenario(name)
    scenario.shape.stepCount = 8
    scenario.shape.weights = [.put: 3, .verify: 2]
    let shape = scenario.shape
    // The step before the last one verifies: the last one ends the life of the store.
    let seed = try #require(
      (UInt64(1)...50).first { seed in
        if case .verify = shape.steps(seed: seed).dropLast().last { true } else { false }
      })
    let (tally, violation) = await FaultLaboratory().run(
      scenario, seed: seed, .ioError, isPermanent: false)
    #expect(violation == nil)
    #expect(tally.faultRuns > 20)
  }
}
