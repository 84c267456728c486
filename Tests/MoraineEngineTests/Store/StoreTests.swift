import Foundation
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

private let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

@Suite struct StoreTests {
  @Test(arguments: modes)
  func storesReplacesRemovesAndReopens(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(ioMode: mode)
    let store = try Store(at: directory.path, configuration: configuration)
    #expect(try await store.value(forKey: "a") == nil)
    try await store.set([1, 2, 3], forKey: "a")
    try await store.set([UInt8](repeating: 7, count: 5000), forKey: "b")
    try await store.set([4], forKey: "a", durability: .sync)
    #expect(try await store.removeValue(forKey: "absent") == nil)
    #expect(try await store.removeValue(forKey: "b") != nil)
    #expect(try await store.value(forKey: "a") == [4])
    let digest = try await store.statistics().digest
    try await store.close()
    await #expect(throws: StoreError.self) { try await store.set([1], forKey: "a") }

    let again = try Store(at: directory.path, configuration: configuration)
    #expect(await again.recoveryReport.wasClean)
    #expect(try await again.value(forKey: "a") == [4])
    #expect(try await again.value(forKey: "b") == nil)
    #expect(try await again.count() == 1)
    #expect(try await again.statistics().digest == digest)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  @Test func openingWithoutAWriteCreatesNothing() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    #expect(try await store.value(forKey: "a") == nil)
    try await store.close()
    #expect(!FileManager.default.fileExists(atPath: directory.store.path))
  }

  @Test func aSmallStoreStaysSmall() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { store in
      for name in ["theme", "size", "language"] { try await store.set([1], forKey: Key(name)) }
    }
    let total = try directory.names().reduce(0) { sum, name in
      let path = directory.store.appendingPathComponent(name).path
      return sum + (try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0)
    }
    #expect(total < 4096)
  }

  @Test(arguments: modes, [256, 400, 4096])
  func equalsADictionaryOverManySegmentsAndReopenings(
    mode: Store.Configuration.IOMode, segmentSizeBytes: Int
  ) async throws {
    let directory = try TestDirectory()
    var random = SeededGenerator(seed: 42)
    var model: [Key: [UInt8]] = [:]
    let configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, ioMode: mode)
    for _ in 0..<4 {
      let store = try Store(at: directory.path, configuration: configuration)
      for _ in 0..<100 { try await step(store, &model, &random) }
      try await expect(store, equals: model)
      try await store.close()
    }
    let store = try Store(at: directory.path, configuration: configuration)
    try await expect(store, equals: model)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  private func step(
    _ store: Store, _ model: inout [Key: [UInt8]], _ random: inout SeededGenerator
  ) async throws {
    let key = Key("key \(Int.random(in: 0..<50, using: &random))")
    let value = [UInt8](
      repeating: .random(in: 0...255, using: &random),
      count: .random(in: 0..<700, using: &random))
    switch Int.random(in: 0..<10, using: &random) {
    case 0..<6:
      try await store.set(value, forKey: key)
      model[key] = value
    case 6..<8:
      let removed = try await store.removeValue(forKey: key)
      #expect((removed != nil) == (model[key] != nil))
      model[key] = nil
    default:
      let other = Key("key \(Int.random(in: 0..<50, using: &random))")
      try await store.write { batch in
        try batch.set(value, forKey: key)
        #expect(try batch.value(forKey: key) == value)
        try batch.removeValue(forKey: other)
      }
      model[key] = value
      model[other] = nil
    }
  }

  private func expect(_ store: Store, equals model: [Key: [UInt8]]) async throws {
    var seen: [Key: [UInt8]] = [:]
    try await store.scan { entry in
      seen[entry.key] = entry.value
      return true
    }
    #expect(seen == model)
    for (key, value) in model { #expect(try await store.value(forKey: key) == value) }
    #expect(try await store.count() == model.count)
  }

  @Test func aStoreInMemoryDoesTheSame() async throws {
    var random = SeededGenerator(seed: 7)
    var model: [Key: [UInt8]] = [:]
    let store = Store.inMemory(configuration: .testing(segmentSizeBytes: 1024, durability: .sync))
    for _ in 0..<300 { try await step(store, &model, &random) }
    try await expect(store, equals: model)
    #expect(store.durableSequence == (try await store.lastSequence()))
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func aBatchThatThrowsLeavesNothing() async throws {
    struct Stop: Error {}
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    await #expect(throws: Stop.self) {
      try await store.write { batch in
        try batch.set([1], forKey: "a")
        throw Stop()
      }
    }
    #expect(try await store.count() == 0)
    try await store.close()
  }

  @Test func openingADirectoryTwiceIsLocked() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    try await store.set([1], forKey: "a")
    do {
      _ = try Store(at: directory.path)
      Issue.record("opened twice")
    } catch {
      #expect(error.code == .locked)
    }
    try await store.close()
  }

  @Test func oversizeKeysAreRefusedBeforeAnythingIsWritten() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path)
    try await store.set([1], forKey: Key([UInt8](repeating: 1, count: 65_536)))
    do {
      try await store.set([1], forKey: Key([UInt8](repeating: 1, count: 65_537)))
      Issue.record("took a key over the limit")
    } catch {
      #expect(error.code == .keyTooLarge)
    }
    #expect(try await store.lastSequence().rawValue == 1)
    try await store.set([], forKey: Key([UInt8]()))
    #expect(try await store.value(forKey: Key([UInt8]())) == [])
    try await store.close()
  }

  @Test func concurrentDurableCommitsAreAllDurable() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .testing(durability: .sync))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for task in 0..<256 {
        group.addTask { try await store.set([1], forKey: Key("task \(task)")) }
      }
      try await group.waitForAll()
    }
    #expect(store.durableSequence.rawValue == 256)
    try await store.close()
  }
}
