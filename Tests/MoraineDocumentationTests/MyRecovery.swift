import Foundation
import MoraineEngine
import MoraineTesting
import Testing

@Test func nothingAcknowledgedIsLost() async throws {
  try await CrashExperiment().run { disk, ledger in
    let store = try disk.openStore()
    for number in 0..<20 {
      ledger.begin()
      try await store.set([1], forKey: Key("book \(number)"), durability: .sync)
      ledger.becomeDurable()
    }
  } check: { disk, steps in
    let count = try await disk.openStore().count()
    // Not `#expect`: only an error ends the experiment, and reports
    // the crash and the disk.
    try #require(steps.contains(UInt64(count)))
  }
}

@Suite struct MyRecovery {
  private static func work(_ disk: SimulatedDisk, _ ledger: CrashLedger) async throws {
    let store = try disk.openStore()
    ledger.begin()
    try await store.set([1], forKey: "book", durability: .sync)
    ledger.becomeDurable()
  }

  private static func check(_ disk: SimulatedDisk, _ steps: ClosedRange<UInt64>) async throws {
    let count = try await disk.openStore().count()
    try #require(steps.contains(UInt64(count)))
  }

  @Test func oneCrashAgain() async throws {
    let (work, check) = (Self.work, Self.check)
    var experiment = CrashExperiment(seed: 1)
    experiment.only = "mapped, crash 26, nothing unsynced survives"
    let tally = try await experiment.run(work: work, check: check)
    #expect(tally.distinctImages == 1)
  }

  @Test func recoveryDoesNotTrap() async {
    await #expect(processExitsWith: .success) {
      let (work, check) = (MyRecovery.work, MyRecovery.check)
      var experiment = CrashExperiment()
      experiment.willCheck = { FileHandle.standardError.write(Data("\($0)\n".utf8)) }
      _ = try await experiment.run(work: work, check: check)
    }
  }

  @Test func faults() async throws {
    let disk = SimulatedDisk()
    let full = DiskFault(.noSpace, on: [.write, .allocate], occurrence: 3, isPermanent: true)
    let store = try disk.openStore(faults: [full])
    await #expect(throws: StoreError.self) {
      for number in 0..<100_000 { try await store.set([1], forKey: Key("\(number)")) }
    }
  }
}
