import Foundation
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Index checkpoints of stores with ordered keyspaces.
@Suite(.timeLimit(.minutes(10))) struct TreeCheckpointTests {
  private static func configuration(
    _ mode: Store.Configuration.IOMode = .mapped
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 16 << 10, ioMode: mode)
    configuration.ordersKeyspaces = false
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  private static func key(_ number: Int) -> Key { Key("path/\(number % 7)/\(100_000 + number)") }

  private static func indexes(_ directory: TestDirectory) throws -> [String] {
    try directory.names().filter { $0.hasSuffix(".index") }
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func openedStoreUsesTheTreesOfTheCheckpoint(_ mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration(mode)
    let all = (0..<3000).map(Self.key).sorted()
    try await withStore(at: directory.path, configuration: configuration) { store in
      let keyspace = try store.orderedKeyspace(named: "paths")
      try await store.write { batch in
        for key in all { try batch.set(key.bytes, forKey: key, in: keyspace) }
        for number in 0..<100 { try batch.set([1], forKey: Key("\(number)")) }
      }
    }
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(await store.recoveryReport.replayedBytes == 0)
    let keyspace = try store.orderedKeyspace(named: "paths")
    #expect(try await keyspace.value(forKey: all[1500]) == all[1500].bytes)
    #expect(await store.validatedNodes() == 2)
    #expect(try await keyspace.count(in: all[10]..<all[2000]) == 1990)
    #expect(try await keyspace.keys(in: all[5]..., limit: 20) == Array(all[5..<25]))
    #expect(try await keyspace.last()?.key == all.last)
    #expect(await store.validatedNodes() != nil)
    #expect(try await keyspace.keys(limit: 5000) == all)
    #expect(try await store.count() == 3100)
    #expect(try await store.verify().isSound)
    #expect(await store.validatedNodes() == nil)
    try await store.close()
  }

  /// Random operations on ordered and other keyspaces, between closing and opening with a
  /// checkpoint, with compactions; and with a checkpoint from before the last compactions.
  @Test(arguments: 0..<6 as Range<UInt64>)
  func storeEqualsItsModelAcrossOpenings(seed: UInt64) async throws {
    let replay: Comment = "seed \(seed)"
    var random = SeededGenerator(seed: seed)
    let directory = try TestDirectory()
    let configuration = Self.configuration(seed % 2 == 0 ? .mapped : .positional)
    var (ordered, other): ([Key: [UInt8]], [Key: [UInt8]]) = ([:], [:])
    var kept: (name: String, bytes: Data)?
    var usedCount = 0
    for round in 0..<12 {
      if let old = kept, round % 3 == 2 {
        for name in try Self.indexes(directory) {
          try FileManager.default.removeItem(at: directory.store.appendingPathComponent(name))
        }
        try old.bytes.write(to: directory.store.appendingPathComponent(old.name))
      }
      let store = try Store(at: directory.path, configuration: configuration)
      if await store.recoveryReport.usedCheckpoint { usedCount += 1 }
      let keyspace = try store.orderedKeyspace(named: "paths")
      for _ in 0..<400 {
        let key = Self.key(Int(random.next() % 2000))
        let value = [UInt8](repeating: UInt8(round), count: Int(random.next() % 40))
        switch random.next() % 8 {
        case 0:
          try await keyspace.removeValue(forKey: key)
          ordered[key] = nil
        case 1:
          try await store.set(value, forKey: key)
          other[key] = value
        case 2:
          let keys = (0..<5).map { _ in Self.key(Int(random.next() % 2000)) }
          try await store.write { batch in
            for key in keys { try batch.set(value, forKey: key, in: keyspace) }
          }
          for key in keys { ordered[key] = value }
        default:
          try await keyspace.set(value, forKey: key)
          ordered[key] = value
        }
      }
      if round % 3 != 0 { try await store.compact() }
      let page = try await keyspace.entries(limit: 10_000)
      #expect(page.entries.map(\.key) == ordered.keys.sorted(), replay)
      #expect(page.entries.map(\.value) == ordered.keys.sorted().map { ordered[$0] }, replay)
      for (key, value) in other { #expect(try await store.value(forKey: key) == value, replay) }
      #expect(try await store.verify().isSound, replay)
      try await store.close()
      if round % 3 == 0, let name = try Self.indexes(directory).first {
        kept = (name, try Data(contentsOf: directory.store.appendingPathComponent(name)))
      }
    }
    #expect(usedCount >= 8, replay)
  }

  private static func restore(_ files: [(String, Data)], _ directory: TestDirectory) throws {
    for name in try directory.names() {
      try FileManager.default.removeItem(at: directory.store.appendingPathComponent(name))
    }
    for (name, bytes) in files {
      try bytes.write(to: directory.store.appendingPathComponent(name))
    }
  }

  /// A changed byte of a tree's page changes no answer, whatever reads the page first.
  @Test(arguments: 0..<5)
  func damagedTreePageChangesNoAnswer(reader: Int) async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration()
    let all = (0..<1200).map(Self.key).sorted()
    try await withStore(at: directory.path, configuration: configuration) { store in
      let keyspace = try store.orderedKeyspace(named: "paths")
      try await store.write { batch in
        for key in all { try batch.set(key.bytes, forKey: key, in: keyspace) }
      }
    }
    let name = try #require(try Self.indexes(directory).first)
    let url = directory.store.appendingPathComponent(name)
    let original = try Data(contentsOf: url)
    let files = try directory.names().map { name in
      (name, try Data(contentsOf: directory.store.appendingPathComponent(name)))
    }
    // The root, leaves, and now and then the zeros after the last node.
    let first = original.count - 65_536
    let places =
      Array(stride(from: first, to: first + 24_000, by: reader < 3 ? 307 : 2111))
      + Array(stride(from: first + 24_000, to: original.count, by: 9001))
    for place in places {
      var damaged = original
      damaged[place] ^= 0x10
      try damaged.write(to: url)
      var readOnly = configuration
      readOnly.isReadOnly = reader < 3
      let store = try Store(at: directory.path, configuration: readOnly)
      let keyspace = try store.orderedKeyspace(named: "paths")
      switch reader {
      case 0: #expect(try await keyspace.keys(limit: 2000) == all, "byte \(place)")
      case 1: #expect(try await keyspace.count(in: all[7]..<all[900]) == 893, "byte \(place)")
      case 2:
        for key in all { #expect(try await keyspace.value(forKey: key) == key.bytes) }
      case 3:
        try await store.compact()
        #expect(try await keyspace.keys(limit: 2000) == all, "byte \(place)")
      default:
        for key in all.prefix(3) { try await keyspace.set(key.bytes, forKey: key) }
        try await store.write { batch in
          for key in all.suffix(3) { try batch.set(key.bytes, forKey: key, in: keyspace) }
        }
        #expect(try await keyspace.keys(limit: 2000) == all, "byte \(place)")
      }
      try await store.close()
      // A writer has changed the store.
      if reader >= 3 { try Self.restore(files, directory) }
    }
  }

  /// The hash index of the checkpoint has the keys that are in a tree now.
  @Test func checkpointFromBeforeAnOrderingIsNotUsed() async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration()
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<50 {
        try await store.keyspace(named: "paths").set([1], forKey: Self.key(number))
      }
    }
    let name = try #require(try Self.indexes(directory).first)
    let old = try Data(contentsOf: directory.store.appendingPathComponent(name))
    try await withStore(at: directory.path, configuration: configuration) { store in
      let count = try await store.orderedKeyspace(named: "paths").count(in: .all)
      #expect(count == 50)
    }
    for name in try Self.indexes(directory) {
      try FileManager.default.removeItem(at: directory.store.appendingPathComponent(name))
    }
    try old.write(to: directory.store.appendingPathComponent(name))
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint == false)
    #expect(try await store.orderedKeyspace(named: "paths").count(in: .all) == 50)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func checkpointFromBeforeANewOrderedKeyspaceIsUsed() async throws {
    let directory = try TestDirectory()
    let configuration = Self.configuration()
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<50 { try await store.set([1], forKey: Self.key(number)) }
    }
    let name = try #require(try Self.indexes(directory).first)
    let old = try Data(contentsOf: directory.store.appendingPathComponent(name))
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<50 {
        try await store.orderedKeyspace(named: "paths").set([2], forKey: Self.key(number))
      }
    }
    for name in try Self.indexes(directory) {
      try FileManager.default.removeItem(at: directory.store.appendingPathComponent(name))
    }
    try old.write(to: directory.store.appendingPathComponent(name))
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(try await store.orderedKeyspace(named: "paths").count(in: .all) == 50)
    #expect(try await store.count() == 100)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}

extension Store {
  /// Number of validated nodes of the trees; nil when all are.
  fileprivate func validatedNodes() -> Int? { engine?.live.trees.loaded?.validatedCount }
}
