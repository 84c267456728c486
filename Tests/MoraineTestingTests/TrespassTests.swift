import MoraineEngine
import SystemPackage
import Testing

@testable import MoraineTesting

/// A store under test that writes outside of its directory is a violation, whatever it writes.
@Suite struct TrespassTests {
  @Test func entryBesideTheStoreIsFound() throws {
    let disk = SimulatedDisk()
    #expect(disk.trespass(beside: "store") == nil)
    try disk.createDirectory("store")
    #expect(disk.trespass(beside: "store") == nil)
    try disk.createDirectory("store/../elsewhere")
    #expect(disk.trespass(beside: "store")?.contains("elsewhere") == true)
  }

  @Test func runThatWritesOutsideTheStoreFails() async throws {
    let scenario = CrashScenario.catalog[0]
    let steps = scenario.shape.steps(seed: 1)
    _ = try await ScenarioRun(scenario, steps).run()
    let run = ScenarioRun(scenario, steps)
    try run.disk.createDirectory("elsewhere")
    let failure = await #expect(throws: StepFailure.self) { try await run.run() }
    #expect(failure?.description.contains("outside its directory") == true)
  }

  /// The image that the check opens contains the entry that a recovery made outside.
  @Test func foreignEntryOnACheckedDiskIsFound() async throws {
    let scenario = CrashScenario.catalog[0]
    let disk = SimulatedDisk()
    try await disk.openStore(configuration: scenario.configuration).close()
    let judge = CrashJudge(scenario: scenario, model: ModelStore(), nestingPeriod: 0)
    var tally = CrashTally()
    #expect(await judge.finding(disk.image(.nothing), 0...0, number: 1, &tally) == nil)
    try disk.createDirectory("elsewhere")
    let finding = await judge.finding(disk.image(.nothing), 0...0, number: 1, &tally)
    #expect(finding?.contains("outside its directory") == true)
  }
}
