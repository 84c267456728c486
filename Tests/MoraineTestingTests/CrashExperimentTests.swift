import Foundation
import MoraineEngine
import Synchronization
import Testing

@testable import MoraineTesting

/// A violation of an embedder's program can be reproduced alone, even when it traps.
@Suite struct CrashExperimentTests {
  private struct Lost: Error {}

  /// Acknowledges operations that are not durable.
  private static func work(_ disk: SimulatedDisk, _ ledger: CrashLedger) async throws {
    let store = try disk.openStore()
    for number in 0..<3 {
      ledger.begin()
      try await store.set([1], forKey: Key("\(number)"), durability: Durability.none)
      ledger.becomeDurable()
    }
  }

  private static func isLost(
    _ disk: SimulatedDisk, _ steps: ClosedRange<UInt64>
  ) async throws -> Bool {
    let store = try disk.openStore()
    return !steps.contains(UInt64(try await store.count()))
  }

  private func run(_ experiment: CrashExperiment) async throws -> CrashTally {
    try await experiment.run(work: Self.work) { disk, steps in
      if try await Self.isLost(disk, steps) { throw Lost() }
    }
  }

  @Test(arguments: [1, 7] as [UInt64])
  func violationIsReproducedByItsName(seed: UInt64) async throws {
    var experiment = CrashExperiment(seed: seed)
    let first = await #expect(throws: CrashViolation.self) { try await run(experiment) }
    let found = try #require(first)
    #expect(found.replay.contains("`seed` to \(seed)"))
    #expect(found.replay.contains("`only` to \"\(found.circumstances)\""))
    experiment.only = found.circumstances
    let tried = Mutex<[String]>([])
    experiment.willCheck = { said in tried.withLock { $0.append(said) } }
    let again = await #expect(throws: CrashViolation.self) { try await run(experiment) }
    // The disks differ in values that are random in each run, such as the store's identity.
    #expect(again?.circumstances == found.circumstances && again?.finding == found.finding)
    #expect(tried.withLock { $0 } == [found.circumstances])
  }

  /// Every crash has a name, not only one that showed a violation.
  @Test func everyCrashCanBeSelectedByItsName() async throws {
    let all = Mutex<[String]>([])
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (4, 2)
    experiment.willCheck = { said in all.withLock { $0.append(said) } }
    let tally = try await experiment.run(work: Self.work) { _, _ in }
    let names = all.withLock { $0 }
    #expect(names.count == tally.distinctImages && Set(names).count == names.count)
    for name in names {
      experiment.only = name
      #expect(try await experiment.run(work: Self.work) { _, _ in }.distinctImages == 1, "\(name)")
    }
  }

  /// Otherwise a replay that does nothing would look like a replay that passes.
  @Test func crashThatNeverOccursIsAViolation() async throws {
    var experiment = CrashExperiment()
    experiment.only = "mapped, crash 1000, everything survives"
    let violation = await #expect(throws: CrashViolation.self) {
      try await experiment.run(work: Self.work) { _, _ in }
    }
    #expect(violation?.finding.contains("has not come up again") == true)
  }

  #if os(Linux) || os(macOS)
    /// The example of the article TestingRecovery: the trap occurs in a process of its own, which
    /// names the crash.
    @Test func trappingCheckIsReproducedByItsName() async throws {
      let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
        var experiment = CrashExperiment()
        experiment.willCheck = { FileHandle.standardError.write(Data("crash: \($0)\n".utf8)) }
        _ = try await experiment.run(work: CrashExperimentTests.work) { disk, steps in
          if try await CrashExperimentTests.isLost(disk, steps) { fatalError("a planted trap") }
        }
      }
      let text = String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
      let lines = text.split(separator: "\n").filter { $0.hasPrefix("crash: ") }
      let last = try #require(lines.last)
      var experiment = CrashExperiment()
      experiment.only = String(last.dropFirst("crash: ".count))
      let violation = await #expect(throws: CrashViolation.self) { try await run(experiment) }
      #expect(violation?.circumstances == experiment.only)
    }
  #endif
}
