import Foundation
import MoraineEngine
import SystemPackage
import Testing

@testable import MoraineTesting

/// The laboratory finds planted bugs, and finds no bug in the engine.
@Suite struct LaboratoryTests {
  @Test func catalogHasFortyScenariosWithDistinctNames() {
    #expect(CrashScenario.catalog.count >= 40)
    #expect(Set(CrashScenario.catalog.map(\.name)).count == CrashScenario.catalog.count)
    #expect(CrashScenario.named("no-such") == nil)
  }

  /// A small sample; `moraine crash-test` runs everything.
  @Test(arguments: CrashScenario.catalog.map(\.name))
  func theEngineKeepsItsPromises(name: String) async throws {
    var laboratory = CrashLaboratory()
    (laboratory.subsetsPerPoint, laboratory.tornPerPoint) = (3, 1)
    laboratory.pointPeriod = 31
    let scenario = try #require(CrashScenario.named(name))
    let (tally, violation) = await laboratory.run(scenario, seed: 1)
    #expect(violation == nil)
    #expect(tally.distinctImages >= 2)
  }

  /// An engine that leaves out one kind of its syncs is detected, for every kind.
  @Test(arguments: SimulatedDisk.SyncKind.allCases, ["sync-mapped", "sync-positional"])
  func laboratoryFindsOmittedSyncs(kind: SimulatedDisk.SyncKind, name: String) async throws {
    var scenario = try #require(CrashScenario.named(name))
    scenario.omittedSyncs = kind
    var laboratory = CrashLaboratory()
    (laboratory.subsetsPerPoint, laboratory.tornPerPoint) = (3, 1)
    (laboratory.nestingPeriod, laboratory.killPeriod) = (0, 0)
    // In one of the two seeds the user has created the directory.
    for seed in UInt64(1)...2 {
      let steps = scenario.shape.steps(seed: seed)
      var tally = CrashTally()
      let violation = await laboratory.attempt(scenario, seed, steps, &tally)
      #expect(violation != nil, "seed \(seed)")
    }
  }

  /// Row 4 of the table of tests: with a period of one, no recovery is left out, nor the recovery
  /// from it.
  @Test func aNestingPeriodOfOneCrashesEveryRecovery() async throws {
    let scenario = try #require(CrashScenario.named("one-key-mapped"))
    var laboratory = CrashLaboratory()
    (laboratory.subsetsPerPoint, laboratory.tornPerPoint) = (1, 0)
    (laboratory.pointPeriod, laboratory.killPeriod) = (9, 0)
    laboratory.nestingPeriod = 0
    let without = await laboratory.run(scenario, seed: 1)
    laboratory.nestingPeriod = 1
    let every = await laboratory.run(scenario, seed: 1)
    #expect(without.violation == nil && every.violation == nil)
    #expect(without.tally.nestedImages == 0)
    #expect(every.tally.distinctImages == without.tally.distinctImages)
    #expect(every.tally.nestedImages > 2 * every.tally.distinctImages)
  }

  /// Row 5 of the table of tests: however often a workload calls the disk, it is crashed at a few
  /// places.
  @Test(arguments: ["puts-mapped", "rotation-positional"])
  func aPointLimitSpreadsThePointsOverTheWorkload(name: String) async throws {
    var scenario = try #require(CrashScenario.named(name))
    scenario.shape.stepCount = 200
    var laboratory = CrashLaboratory()
    (laboratory.subsetsPerPoint, laboratory.tornPerPoint) = (0, 0)
    (laboratory.nestingPeriod, laboratory.killPeriod) = (0, 0)
    laboratory.pointLimit = 4
    for seed in UInt64(1)...5 {
      let (tally, violation) = await laboratory.run(scenario, seed: seed)
      #expect(violation == nil)
      #expect((2...4).contains(tally.crashPoints))
    }
  }

  @Test func aSeedLeadsToTheSameWorkload() {
    let shape = CrashScenario.catalog[0].shape
    #expect(shape.steps(seed: 7) == shape.steps(seed: 7))
    #expect(shape.steps(seed: 7) != shape.steps(seed: 8))
  }

  /// A program that acknowledges before it has saved.
  @Test func laboratoryFindsEarlyAcknowledgements() async throws {
    await #expect(throws: CrashViolation.self) {
      try await CrashExperiment().run { disk, ledger in
        let store = try disk.openStore()
        for number in 0..<5 {
          ledger.begin()
          ledger.becomeDurable()
          try await store.set([1], forKey: Key("\(number)"), durability: .sync)
        }
      } check: { disk, steps in
        try await Self.count(disk, steps)
      }
    }
  }

  /// A program that reports operations as durable that are not.
  @Test func laboratoryFindsUnsyncedWritesReportedAsDurable() async throws {
    await #expect(throws: CrashViolation.self) {
      try await CrashExperiment().run { disk, ledger in
        try await Self.work(disk, ledger, durability: .none)
      } check: { disk, steps in
        try await Self.count(disk, steps)
      }
    }
  }

  /// A program that makes two writes of changes that must happen together. Between them no call
  /// goes to a mapped disk.
  @Test func laboratoryFindsATornPairOfWrites() async throws {
    await #expect(throws: CrashViolation.self) {
      try await CrashExperiment().run { disk, ledger in
        let store = try disk.openStore()
        for number in 0..<3 {
          ledger.begin()
          try await store.set([1], forKey: Key("from \(number)"), durability: Durability.none)
          try await store.set([1], forKey: Key("to \(number)"), durability: Durability.none)
          ledger.acknowledge()
        }
      } check: { disk, _ in
        guard try await disk.openStore().count() % 2 == 0 else { throw Lost() }
      }
    }
  }

  /// A promise may be broken after the last call to the disk.
  @Test func laboratoryFindsAPromiseBrokenAfterTheLastCall() async throws {
    await #expect(throws: CrashViolation.self) {
      try await CrashExperiment().run { disk, ledger in
        let store = try disk.openStore()
        for number in 0..<3 {
          ledger.begin()
          try await store.set([1], forKey: Key("\(number)"), durability: Durability.none)
          ledger.becomeDurable()
        }
        ledger.begin()
        try await store.sync()
        try await store.set([1], forKey: "last", durability: .sync)
        ledger.becomeDurable()
      } check: { disk, steps in
        try await Self.count(disk, steps)
      }
    }
  }

  @Test func laboratoryFindsNothingInASoundProgram() async throws {
    let tally = try await CrashExperiment().run { disk, ledger in
      try await Self.work(disk, ledger, durability: .sync)
    } check: { disk, steps in
      try await Self.count(disk, steps)
    }
    #expect(tally.distinctImages > 10)
    #expect(tally.crashPoints > 10)
  }

  private struct Lost: Error {}

  private static func work(
    _ disk: SimulatedDisk, _ ledger: CrashLedger, durability: Durability
  ) async throws {
    let store = try disk.openStore()
    for number in 0..<5 {
      ledger.begin()
      try await store.set([1], forKey: Key("\(number)"), durability: durability)
      ledger.becomeDurable()
    }
  }

  private static func count(_ disk: SimulatedDisk, _ steps: ClosedRange<UInt64>) async throws {
    let count = try await disk.openStore().count()
    guard steps.contains(UInt64(count)) else { throw Lost() }
  }

  @Test func workloadShrinksToTheStepsThatMatter() async {
    let steps = Array(0..<100)
    let fewest = await WorkloadShrinker().shrink(steps) { $0.contains(17) && $0.contains(60) }
    #expect(fewest == [17, 60])
  }

  @Test func aDiskCanBeLookedAtWithOtherTools() async throws {
    let disk = SimulatedDisk()
    try await disk.openStore().close()
    let store = try disk.openStore()
    try await store.set([7], forKey: "a", durability: .sync)
    let place = FilePath(NSTemporaryDirectory()).appending("moraine-image-\(UUID().uuidString)")
    defer { do { try FileManager.default.removeItem(atPath: place.string) } catch {} }
    let saved = try disk.image(.nothing).save(in: place)
    let real = try Store(at: try #require(saved.first))
    #expect(try await real.value(forKey: "a") == [7])
    try await real.close()
  }
}
