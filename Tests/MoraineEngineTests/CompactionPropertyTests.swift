import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Puts, deletes, batches, compactions of any neighbours, reopening: it equals a dictionary.
@Suite struct CompactionPropertyTests {
  static var seeds: Range<UInt64> {
    let text = ProcessInfo.processInfo.environment["MORAINE_COMPACTION_SEEDS"]
    return 0..<(text.flatMap { UInt64($0) } ?? 150)
  }

  @Test(arguments: [Configuration.IOMode.mapped, .positional])
  func equalsADictionaryWhateverIsCompacted(mode: Configuration.IOMode) async throws {
    for seed in Self.seeds { try await run(seed, mode) }
  }

  private func run(_ seed: UInt64, _ mode: Configuration.IOMode) async throws {
    var random = SeededGenerator(seed: seed)
    var configuration = Configuration.testing(segmentSizeBytes: 400, ioMode: mode)
    // Every third store compacts by itself as well.
    configuration.compaction = seed % 3 == 0 ? CompactionPolicy() : .manual
    // Every second one writes an index checkpoint whenever it can.
    configuration.checkpointFloorBytes = seed % 2 == 0 ? 0 : 1 << 20
    let storage = MemoryStorage()
    var checkpoints = CheckpointShelf(storage)
    var model: [Key: [UInt8]] = [:]
    let what = Comment(rawValue: "MORAINE_COMPACTION_SEEDS=\(seed + 1), seed \(seed), \(mode)")
    var store = try Store(on: storage, at: "store", configuration: configuration)
    for _ in 0..<60 {
      switch random.next() % 20 {
      case 0..<9: try await put(&random, &model, store)
      case 9..<14: try await delete(&random, &model, store)
      case 14: try await batch(&random, &model, store)
      case 15..<18:
        let start = Int(random.next() % 6)
        try await store.compact(segments: start..<start + 1 + Int(random.next() % 4))
      case 18: _ = try await store.compact()
      default:
        try await store.close()
        // As it was left, without any, or an older one in its place.
        let isThere = try checkpoints.exchange(&random)
        store = try Store(on: storage, at: "store", configuration: configuration)
        // Any that is there serves: falling back on the log would hide that it led astray.
        #expect(await store.recoveryReport.usedCheckpoint == isThere, what)
      }
    }
    try await check(store, model, what)
    try await store.close()
    store = try Store(on: storage, at: "store", configuration: configuration)
    try await check(store, model, what)
    _ = try await store.compact()
    try await check(store, model, what)
    try await store.close()
    store = try Store(on: storage, at: "store", configuration: configuration)
    try await check(store, model, what)
    try await store.close()
  }

  private func key(_ random: inout SeededGenerator) -> Key { "key \(random.next() % 50)" }

  private func put(
    _ random: inout SeededGenerator, _ model: inout [Key: [UInt8]], _ store: Store
  ) async throws {
    let key = key(&random)
    let value = (0..<Int(random.next() % 70)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    model[key] = value
    try await store.set(value, forKey: key)
  }

  private func delete(
    _ random: inout SeededGenerator, _ model: inout [Key: [UInt8]], _ store: Store
  ) async throws {
    let key = key(&random)
    let wasThere = model.removeValue(forKey: key) != nil
    #expect((try await store.removeValue(forKey: key) != nil) == wasThere)
  }

  private func batch(
    _ random: inout SeededGenerator, _ model: inout [Key: [UInt8]], _ store: Store
  ) async throws {
    let keys = (0..<5).map { _ in key(&random) }
    try await store.write { batch in
      for (index, key) in keys.enumerated() {
        if index % 3 == 2 {
          try batch.removeValue(forKey: key)
        } else {
          try batch.set([UInt8](repeating: UInt8(index), count: 60), forKey: key)
        }
      }
    }
    for (index, key) in keys.enumerated() {
      model[key] = index % 3 == 2 ? nil : [UInt8](repeating: UInt8(index), count: 60)
    }
  }

  private func check(
    _ store: Store, _ model: [Key: [UInt8]], _ what: Comment
  ) async throws {
    var found: [Key: [UInt8]] = [:]
    try await store.forEach { entry in
      found[entry.key] = entry.value
      return true
    }
    #expect(found == model, what)
    #expect(await store.count == model.count, what)
    let report = try await store.verify()
    #expect(report.isSound, "\(what): \(report.problems)")
  }
}

/// Keeps index checkpoints of earlier lives, and puts them back in the place of newer ones.
private struct CheckpointShelf {
  private let storage: MemoryStorage
  private var kept: [(name: String, bytes: [UInt8])] = []

  init(_ storage: MemoryStorage) {
    self.storage = storage
  }

  /// - Returns: whether there is one now.
  mutating func exchange(_ random: inout SeededGenerator) throws -> Bool {
    guard let directory = try storage.openDirectory("store") else { return false }
    let names = try directory.entries().map(\.name).filter { $0.hasSuffix(".index") }
    for name in names { kept.append((name, try read(name, directory))) }
    let choice = random.next() % 4
    guard choice > 1, !kept.isEmpty else { return !names.isEmpty }
    for name in names { try directory.remove(name) }
    guard choice == 3 else { return false }
    let (name, bytes) = kept[Int(random.next() % UInt64(kept.count))]
    let file = try directory.createFile(name)
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    return true
  }

  private func read(_ name: String, _ directory: any StorageDirectory) throws -> [UInt8] {
    guard let file = try directory.openFile(name, .read) else { return [] }
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    return bytes
  }
}
