import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Puts, deletes, batches, compactions of any neighbours, and reopening: the store equals a
/// dictionary, and so does each of its keyspaces.
@Suite struct CompactionPropertyTests {
  /// A key in one of the keyspaces, given by its index in ``names``.
  private struct Place: Hashable {
    let keyspace: Int
    let key: Key
  }

  private typealias Model = [Place: [UInt8]]

  /// The unnamed keyspace, which every store has, and two more, which every second store has.
  private static let names = ["", "b", "c"]

  static var seeds: Range<UInt64> {
    let text = ProcessInfo.processInfo.environment["MORAINE_COMPACTION_SEEDS"]
    return 0..<(text.flatMap { UInt64($0) } ?? 150)
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func compactedStoreEqualsADictionary(mode: Store.Configuration.IOMode) async throws {
    for seed in Self.seeds { try await run(seed, mode) }
  }

  private func run(_ seed: UInt64, _ mode: Store.Configuration.IOMode) async throws {
    var random = SeededGenerator(seed: seed)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 400, ioMode: mode)
    // Every third store also compacts in the background.
    configuration.compaction = seed % 3 == 0 ? CompactionPolicy() : .manual
    // Every second store writes an index checkpoint whenever it can.
    configuration.checkpointFloorBytes = seed % 2 == 0 ? 0 : 1 << 20
    let storage = MemoryStorage()
    var checkpoints = CheckpointShelf(storage)
    var model: Model = [:]
    let keyspaces = seed % 4 < 2 ? 1 : Self.names.count
    let what = Comment(rawValue: "MORAINE_COMPACTION_SEEDS=\(seed + 1), seed \(seed), \(mode)")
    var store = try Store(on: storage, at: "store", configuration: configuration)
    for _ in 0..<60 {
      switch random.next() % 20 {
      case 0..<9: try await put(&random, &model, store, keyspaces)
      case 9..<14: try await delete(&random, &model, store, keyspaces)
      case 14: try await batch(&random, &model, store, keyspaces)
      case 15..<18:
        let start = Int(random.next() % 6)
        try await store.compact(segments: start..<start + 1 + Int(random.next() % 4))
      case 18: _ = try await store.compact()
      default:
        try await store.close()
        // The checkpoint stays, is removed, or is replaced by an older one.
        let isThere = try checkpoints.exchange(&random)
        store = try Store(on: storage, at: "store", configuration: configuration)
        // Every checkpoint that exists must be used: falling back on the log would hide that the
        // checkpoint led to wrong answers.
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

  /// The same keys in every keyspace; 50 of them in all.
  private func place(_ random: inout SeededGenerator, _ keyspaces: Int) -> Place {
    let number = Int(random.next() % 50)
    return Place(keyspace: number % keyspaces, key: "key \(number / keyspaces)")
  }

  private func keyspace(_ place: Place, _ store: Store) throws -> Keyspace {
    try store.keyspace(named: Self.names[place.keyspace])
  }

  private func put(
    _ random: inout SeededGenerator, _ model: inout Model, _ store: Store, _ keyspaces: Int
  ) async throws {
    let place = place(&random, keyspaces)
    let value = (0..<Int(random.next() % 70)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    model[place] = value
    try await keyspace(place, store).set(value, forKey: place.key)
  }

  private func delete(
    _ random: inout SeededGenerator, _ model: inout Model, _ store: Store, _ keyspaces: Int
  ) async throws {
    let place = place(&random, keyspaces)
    let wasThere = model.removeValue(forKey: place) != nil
    #expect((try await keyspace(place, store).removeValue(forKey: place.key) != nil) == wasThere)
  }

  private func batch(
    _ random: inout SeededGenerator, _ model: inout Model, _ store: Store, _ keyspaces: Int
  ) async throws {
    let places = (0..<5).map { _ in place(&random, keyspaces) }
    let targets = try places.map { (try keyspace($0, store), $0.key) }
    try await store.write { batch in
      for (index, (keyspace, key)) in targets.enumerated() {
        if index % 3 == 2 {
          try batch.removeValue(forKey: key, in: keyspace)
        } else {
          try batch.set([UInt8](repeating: UInt8(index), count: 60), forKey: key, in: keyspace)
        }
      }
    }
    for (index, place) in places.enumerated() {
      model[place] = index % 3 == 2 ? nil : [UInt8](repeating: UInt8(index), count: 60)
    }
  }

  private func check(
    _ store: Store, _ model: Model, _ what: Comment
  ) async throws {
    var found: Model = [:]
    var liveBytes: UInt64 = 0
    for (number, name) in Self.names.enumerated() {
      let keyspace = try store.keyspace(named: name)
      let contents = try await contents(keyspace)
      for (key, value) in contents { found[Place(keyspace: number, key: key)] = value }
      let statistics = try await keyspace.statistics()
      #expect(statistics.count == contents.count, "\(what), keyspace \(name)")
      liveBytes += statistics.liveBytes
    }
    #expect(found == model, what)
    #expect(try await store.statistics().liveBytes == liveBytes, what)
    #expect(try await store.count() == model.count, what)
    let report = try await store.verify()
    #expect(report.isSound, "\(what): \(report.problems)")
  }
}

/// Returns all live records of a keyspace.
func contents(_ keyspace: Keyspace) async throws -> [Key: [UInt8]] {
  let found = Mutex<[Key: [UInt8]]>([:])
  try await keyspace.scan { entry in
    found.withLock { $0[entry.key] = entry.value }
    return true
  }
  return found.withLock { $0 }
}

/// Keeps index checkpoints of earlier runs, and puts them back in the place of newer ones.
private struct CheckpointShelf {
  private let storage: MemoryStorage
  private var kept: [(name: String, bytes: [UInt8])] = []

  init(_ storage: MemoryStorage) {
    self.storage = storage
  }

  /// - Returns: whether a checkpoint exists now.
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
