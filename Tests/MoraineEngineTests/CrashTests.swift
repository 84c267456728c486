import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A power failure before every call that changes the disk, with any part of the unsynced lost.
@Suite struct CrashTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Configuration.IOMode
    let segmentSizeBytes: Int
    let seed: UInt64
    var testDescription: String { "\(mode), segments of \(segmentSizeBytes), seed \(seed)" }
  }

  static let cases: [Case] = [Configuration.IOMode.mapped, .positional].flatMap { mode in
    [300, 900, 20_000].map { Case(mode: mode, segmentSizeBytes: $0, seed: UInt64($0)) }
  }

  @Test(arguments: cases)
  func whatSurvivesIsAPrefixWithEverythingAcknowledged(_ item: Case) async throws {
    let run = CrashRun(
      item.seed, .testing(segmentSizeBytes: item.segmentSizeBytes, ioMode: item.mode))
    let images = try await run.work()
    #expect(images.count > 100)
    for (index, image) in images.enumerated() {
      let what = "\(item), \(image.description)"
      // Every so often the next power failure comes during recovery, before each of its changes.
      let nested = index.isMultiple(of: 101) ? try run.imagesOfRecovery(image) : []
      try await run.check(image, what)
      for again in nested { try await run.check(again, "\(what), then \(again.description)") }
    }
  }
}
