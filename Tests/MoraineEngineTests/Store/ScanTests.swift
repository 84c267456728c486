import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A scan that finds no dead record among the first records of a segment stops asking the index, if
/// the segment's figures show no dead record at all.
@Suite(.timeLimit(.minutes(10))) struct ScanTests {
  /// More records than a scan reads before it decides.
  private static let count = 3000

  enum Dead: CaseIterable { case nothing, early, late, lateAndDeletes, half }
  enum Value: CaseIterable { case short, compressible, shared }

  private static func value(_ number: Int, _ kind: Value) -> [UInt8] {
    switch kind {
    case .short: [UInt8("\(number)".utf8.first ?? 0)]
    case .compressible: Array(repeating: UInt8(truncatingIfNeeded: number), count: 300)
    case .shared: Array("{\"name\":\"user \(number)\",\"city\":\"Hamburg\",\"age\":\(number)}".utf8)
    }
  }

  private static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.hashed(ioMode: mode)
    configuration.segmentSizeBytes = 64 << 20
    configuration.durability = .none
    configuration.compaction = .manual
    return configuration
  }

  private static func die(
    _ dead: Dead, _ store: Store, _ model: inout [Key: [UInt8]]
  ) async throws {
    let numbers: any Sequence<Int> =
      switch dead {
      case .nothing: []
      case .early: 3..<4
      case .late, .lateAndDeletes: [count - 700, count - 1]
      case .half: stride(from: 0, to: count, by: 2)
      }
    for number in numbers.map({ $0 }) {
      let key = Key("\(number)")
      if dead == .lateAndDeletes {
        try await store.removeValue(forKey: key)
        model[key] = nil
      } else {
        try await store.set([7, 7], forKey: key)
        model[key] = [7, 7]
      }
    }
  }

  private static func expect(_ store: Store, _ model: [Key: [UInt8]]) async throws {
    let seen = Seen()
    try await store.scan { entry in
      seen.entries.append((entry.key, entry.value))
      return true
    }
    #expect(seen.entries.count == model.count)
    #expect(Dictionary(seen.entries) { first, _ in first } == model)
    try await store.snapshot().check(model)
    #expect(try await store.verify().problems.isEmpty)
  }

  @Test(arguments: Dead.allCases, Value.allCases)
  func onlyLiveRecordsAreScanned(dead: Dead, kind: Value) async throws {
    for mode in [Store.Configuration.IOMode.mapped, .positional] {
      let storage = MemoryStorage()
      var store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
      var model: [Key: [UInt8]] = [:]
      for number in 0..<Self.count {
        let key = Key("\(number)")
        model[key] = Self.value(number, kind)
        // Marks of syncs are neither live nor dead.
        let durability: Durability = number.isMultiple(of: 500) ? .sync : .none
        try await store.set(Self.value(number, kind), forKey: key, durability: durability)
      }
      try await Self.die(dead, store, &model)
      try await Self.expect(store, model)
      try await store.close()
      store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
      try await Self.expect(store, model)
      _ = try await store.compact()
      try await Self.expect(store, model)
      try await store.close()
    }
  }

  /// A scan trusts the segment's figures; verifying must not.
  @Test func verifyMissesNoEntry() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(.mapped))
    for number in 0..<Self.count { try await store.set([1], forKey: Key("\(number)")) }
    try await store.forgetEntry(ofKey: Key("\(Self.count - 1)"))
    #expect(try await store.verify().problems.first?.code == .corrupted)
  }

  @Test func readingADamagedValueThrows() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(.mapped))
    for number in 0..<Self.count { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    let key = Key("\(Self.count / 2)")
    try await store.damageValue(ofKey: key)
    let error = await #expect(throws: StoreError.self) { try await store.value(forKey: key) }
    #expect(error?.code == .corrupted)
    let ofSpan = await #expect(throws: StoreError.self) {
      try await store.withValue(forKey: key) { _ in }
    }
    #expect(ofSpan?.code == .corrupted)
    #expect(try await store.value(forKey: "0") == [1, 2, 3])
  }

  @Test(arguments: [true, false])
  func damageAfterTheFirstRecordsIsFound(isLent: Bool) async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(.mapped))
    for number in 0..<Self.count { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    let snapshot = try await store.snapshot()
    try await store.damageValue(ofKey: Key("\(Self.count - 1)"))
    let error = #expect(throws: StoreError.self) {
      if isLent {
        try snapshot.scanSpans { _, _ in true }
      } else {
        try snapshot.scan { _ in true }
      }
    }
    #expect(error?.code == .corrupted)
    await #expect(throws: StoreError.self) { try await store.scan { _ in true } }
  }
}

/// Records that a closure on the store's actor has seen.
private final class Seen: @unchecked Sendable {
  var entries: [(Key, [UInt8])] = []
}

extension Store {
  /// Makes a key's entry point to no record.
  fileprivate func forgetEntry(ofKey key: Key) throws(StoreError) {
    guard let entry = try found(key)?.entry else { return }
    engine!.live.index.replace(entry, with: Address(slot: 0, offset: 1 << 20))
  }

  /// Changes the last byte of a key's record in its mapping.
  fileprivate func damageValue(ofKey key: Key) throws(StoreError) {
    guard let record = try found(key)?.record else { return }
    let last = UnsafeMutableRawPointer(mutating: record.base + record.header.length - 1)
    last.storeBytes(of: last.load(as: UInt8.self) ^ 1, as: UInt8.self)
  }

  private func found(_ key: Key) throws(StoreError) -> IndexHit? {
    try key.bytes.withBytes { bytes throws(StoreError) in
      let hash = engine!.hash(bytes, 0)
      return try engine!.log.table.find(bytes, 0, hash: hash, in: engine!.live.index)
    }
  }
}
