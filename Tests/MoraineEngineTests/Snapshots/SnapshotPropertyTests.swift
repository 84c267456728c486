import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Any number of snapshots, taken and released at any time: each equals the dictionary of its
/// moment.
///
/// `MORAINE_SNAPSHOT_SEEDS=N` runs seeds 0 to N - 1.
@Suite(.timeLimit(.minutes(10))) struct SnapshotPropertyTests {
  private struct Moment {
    let snapshot: Store.Snapshot
    let model: [Key: [UInt8]]
  }

  static var seeds: Range<UInt64> {
    let text = ProcessInfo.processInfo.environment["MORAINE_SNAPSHOT_SEEDS"]
    return 0..<(text.flatMap { UInt64($0) } ?? 24)
  }

  @Test(arguments: SnapshotTests.modes)
  func everySnapshotEqualsTheDictionaryOfItsMoment(mode: Store.Configuration.IOMode) async throws {
    for seed in Self.seeds { try await run(seed, mode) }
  }

  private func run(_ seed: UInt64, _ mode: Store.Configuration.IOMode) async throws {
    var random = SeededGenerator(seed: seed)
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 3000
    configuration.ioMode = mode
    configuration.durability = .none
    configuration.checkpointFloorBytes = seed % 2 == 0 ? 0 : 1 << 20
    if seed % 3 != 0 { configuration.compaction = .manual }
    // Up to thousands of keys: then buckets split and overflow.
    let keyCount = UInt64([50, 400, 6000][Int(seed % 3)])
    let storage = MemoryStorage()
    let what = Comment(rawValue: "MORAINE_SNAPSHOT_SEEDS=\(seed + 1), seed \(seed), \(mode)")
    var store = try Store(on: storage, at: "store", configuration: configuration)
    var model: [Key: [UInt8]] = [:]
    var moments: [Moment] = []
    for _ in 0..<40 {
      switch random.next() % 16 {
      case 0..<6:
        for _ in 0..<random.next() % (keyCount / 4 + 1) {
          let key = Key("\(random.next() % keyCount)")
          let value = Array(repeating: UInt8(truncatingIfNeeded: random.next()), count: 5)
          model[key] = value
          try await store.set(value, forKey: key)
        }
      case 6..<8:
        for _ in 0..<random.next() % (keyCount / 4 + 1) {
          let key = Key("\(random.next() % keyCount)")
          model[key] = nil
          try await store.removeValue(forKey: key)
        }
      case 8: try await writeBatch(&random, &model, store, keyCount)
      case 9..<13: moments.append(Moment(snapshot: try await store.snapshot(), model: model))
      case 13 where !moments.isEmpty:
        moments.remove(at: Int(random.next() % UInt64(moments.count)))
      case 14: _ = try await store.compact()
      case 15:
        if mode == .positional { moments = [] }
        try await store.close()
        store = try Store(on: storage, at: "store", configuration: configuration)
      default: break
      }
      if let moment = moments.randomElement(using: &random) {
        let key = Key("\(random.next() % keyCount)")
        #expect(try moment.snapshot.value(forKey: key) == moment.model[key], what)
      }
    }
    for moment in moments { try moment.snapshot.check(moment.model, what) }
    try await store.snapshot().check(model, what)
    #expect(try await store.verify().isSound, what)
    try await store.close()
    for moment in moments { #expect(try moment.snapshot.contents() == moment.model, what) }
  }

  private func writeBatch(
    _ random: inout SeededGenerator, _ model: inout [Key: [UInt8]], _ store: Store,
    _ keyCount: UInt64
  ) async throws {
    var operations: [(Key, [UInt8]?)] = []
    for _ in 0..<20 {
      let key = Key("\(random.next() % keyCount)")
      operations.append((key, random.next() % 3 == 0 ? nil : [UInt8(random.next() % 256)]))
    }
    for (key, value) in operations { model[key] = value }
    try await store.write { [operations] batch in
      for (key, value) in operations {
        if let value {
          try batch.set(value, forKey: key)
        } else {
          try batch.removeValue(forKey: key)
        }
      }
    }
  }
}
