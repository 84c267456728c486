import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Random operations by several openings of one store: the store equals a dictionary.
@Suite(.timeLimit(.minutes(10))) struct SharedPropertyTests {
  private static let names = ["", "users"]

  private static var seedCount: UInt64 {
    let text = ProcessInfo.processInfo.environment["MORAINE_SHARED_SEEDS"]
    return text.flatMap { UInt64($0) } ?? 40
  }

  @Test(arguments: 0..<seedCount)
  func sharedStoreEqualsADictionary(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let storage = MemoryStorage()
    var configuration = Store.Configuration.shared(
      seed % 2 == 0 ? .mapped : .positional, segmentSizeBytes: 400 + Int(seed % 5) * 300)
    configuration.checkpointFloorBytes = seed % 3 == 0 ? 0 : 1 << 20
    if seed % 4 < 3 { configuration.compaction = .manual }
    func open(_ place: Int) throws -> Store {
      // Openings with mappings and openings without mappings write to the same segments.
      if seed % 3 == 1 { configuration.ioMode = place % 2 == 0 ? .mapped : .positional }
      return try Store(on: storage, at: "store", configuration: configuration)
    }
    var stores = [try open(0), try open(1), try open(2)]
    var expected: [String: [Key: [UInt8]]] = ["": [:], "users": [:]]
    let replay = Comment(rawValue: "MORAINE_SHARED_SEEDS=\(seed + 1), seed \(seed)")
    for step in 0..<120 {
      let place = Int.random(in: 0..<3, using: &random)
      let store = stores[place]
      let name = Self.names[Int.random(in: 0..<2, using: &random)]
      let keyspace = try store.keyspace(named: name)
      let key = Key("\(Int.random(in: 0..<12, using: &random))")
      switch Int.random(in: 0..<20, using: &random) {
      case 0..<9:
        let value = [UInt8](
          repeating: UInt8(truncatingIfNeeded: step), count: .random(in: 0...60, using: &random))
        try await keyspace.set(value, forKey: key)
        expected[name]?[key] = value
      case 9..<13:
        let was = try await keyspace.removeValue(forKey: key) != nil
        #expect(was == (expected[name]?.removeValue(forKey: key) != nil), replay)
      case 13..<15:
        let keys = (0..<3).map { _ in Key("\(Int.random(in: 0..<12, using: &random))") }
        let value = [UInt8(truncatingIfNeeded: step)]
        try await store.write { batch in
          for key in keys { try batch.set(value, forKey: key, in: keyspace) }
        }
        for key in keys { expected[name]?[key] = value }
      case 15: try await store.compact()
      case 16:
        try await store.close()
        stores[place] = try open(place)
      case 17:
        try await store.suspend()
        try await store.resume()
      case 18: try await store.sync()
      default: break
      }
      let reader = stores[Int.random(in: 0..<3, using: &random)]
      for name in Self.names {
        let found = try await contents(try reader.keyspace(named: name))
        #expect(found == expected[name], replay)
      }
    }
    var digests: Set<StateDigest> = []
    for store in stores {
      #expect(try await store.verify().isSound, replay)
      digests.insert(try await store.statistics().digest)
      try await store.waitUntilIdle()
    }
    #expect(digests.count == 1, replay)
    for store in stores { try await store.close() }
    let alone = try Store(on: storage, at: "store")
    #expect(await alone.recoveryReport.wasClean, replay)
    #expect(try await contents(try alone.keyspace(named: "")) == expected[""], replay)
    try await alone.close()
  }
}
