import Foundation
import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineTesting
import SystemPackage
import Testing

/// Random moments of a store that is written, compacted, checkpointed and cleaned while it is
/// archived.
///
/// `MORAINE_RESTORE_POINTS` is the number of moments: 120 by default, 1000 for a release.
@Suite(.timeLimit(.minutes(30))) struct RestorePointTests {
  private static var count: Int {
    ProcessInfo.processInfo.environment["MORAINE_RESTORE_POINTS"].flatMap { Int($0) } ?? 120
  }

  private struct Moment {
    let sequence: SequenceNumber
    let state: ArchiveBench.State
  }

  /// Writes, one operation at a time, while tasks ship, compact, checkpoint and clean.
  private func write(
    _ store: Store, _ writer: ArchiveWriter, _ archive: Archive, _ clock: LabelClock,
    seed: UInt64, operations: Int
  ) async throws -> [Moment] {
    var random = SeededGenerator(seed: seed)
    var moments: [Moment] = []
    let rule = RetentionRule(moments: .seconds(40 * 3600), checkpoints: .zero, days: 3)
    for number in 0..<operations {
      try await store.change(1, using: &random)
      moments.append(
        Moment(
          sequence: try await store.statistics().lastSequence, state: try await store.contents()))
      switch number % 250 {
      case 60: try await writer.checkpoint()
      case 120, 200:
        async let compacted = store.compact()
        async let shipped = writer.flush()
        _ = try await (compacted, shipped)
      case 180: clock.advance(hours: 7)
      case 240:
        if number > operations / 2 {
          async let cleaned = archive.clean(rule)
          async let shipped = writer.flush()
          _ = try await (cleaned, shipped)
        }
      default: break
      }
    }
    return moments
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func eachRandomMomentIsRestoredExactly(mode: Store.Configuration.IOMode) async throws {
    var bench = ArchiveBench()
    let clock = LabelClock()
    bench.configuration.milliseconds = { clock.milliseconds }
    bench.configuration.interval = .milliseconds(2)
    bench.configuration.commitBytes = 3000
    let count = (Self.count + 1) / 2
    let store = try bench.store("store", mode)
    let writer = try await bench.attach(store)
    let archive = try await bench.archive()
    let seed = UInt64(count)
    let moments = try await write(
      store, writer, archive, clock, seed: seed, operations: max(2500, 4 * count))
    try await writer.flush()
    let checkpoints = try await archive.checkpoints()
    let base = try #require(checkpoints.last { $0.extent == .moments })
    #expect(checkpoints.contains { $0.extent == .removed }, "a cleaning has removed something")
    var random = SeededGenerator(seed: seed)
    let kept = moments.filter { $0.sequence >= base.sequence }
    #expect(kept.count > 1000)
    for index in 0..<count {
      let moment = try #require(kept.randomElement(using: &random))
      let path = FilePath("restored-\(index)")
      let restored = try await bench.restored(.sequence(moment.sequence), to: path)
      #expect(restored.sequence == moment.sequence)
      #expect(restored.state == moment.state, "operation \(moment.sequence), seed \(seed)")
    }
    // A state alone stays of a day that was cleaned, and the moments around it do not.
    for checkpoint in checkpoints where checkpoint.extent != .moments {
      let path = FilePath("checkpoint-\(checkpoint.number)")
      do {
        let report = try await archive.restore(
          to: path, at: .position(checkpoint.position), on: bench.storage)
        #expect(checkpoint.extent == .state && report.sequence == checkpoint.sequence)
        let restored = try bench.store(path)
        let state = try await restored.contents()
        #expect(moments.first { $0.sequence == checkpoint.sequence }?.state == state)
        try await restored.close()
      } catch let error as ArchiveError {
        #expect(checkpoint.extent == .removed && error.code == .stateUnavailable, "\(error)")
      }
    }
    try await writer.detach()
    try await store.close()
    print("\(count) moments restored, \(moments.count) written, \(mode)")
  }
}
