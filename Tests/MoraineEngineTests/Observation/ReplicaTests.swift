import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A reader that follows the feed, with pauses, through compactions and reopenings, ends with the
/// contents of the store.
@Suite struct ReplicaTests {
  private struct Replica {
    var contents: [String: [UInt8]] = [:]
    var cursor: ChangeCursor?
    var restarts = 0

    /// Follows the feed until no change is left.
    mutating func catchUp(_ store: Store) async throws {
      let last = try await store.lastChange()
      guard let last, cursor?.sequence != last else { return }
      var iterator = feed(store).makeAsyncIterator()
      while cursor?.sequence ?? .none < last {
        do throws(StoreError) {
          guard let change = try await iterator.next() else { return }
          contents["\(change.keyspace)/\(change.key)"] = change.value
          cursor = change.cursor
        } catch {
          guard error.code == .cursorExpired else { throw error }
          self = Replica(restarts: restarts + 1)
          iterator = feed(store).makeAsyncIterator()
        }
      }
    }

    private func feed(_ store: Store) -> ChangeSequence {
      cursor.map { store.changes(since: $0) } ?? store.contentsAndChanges()
    }
  }

  static var seeds: Range<UInt64> {
    let text = ProcessInfo.processInfo.environment["MORAINE_REPLICA_SEEDS"]
    return 0..<(text.flatMap { UInt64($0) } ?? 60)
  }

  @Test(arguments: KeyspaceTests.modes)
  func replicaEndsEqualToTheStore(mode: Store.Configuration.IOMode) async throws {
    var restarts = 0
    for seed in Self.seeds { restarts += try await run(seed, mode) }
    // Both ways occurred: continuing and starting again.
    #expect(restarts > 0 && restarts < Self.seeds.count * 10)
  }

  private func run(_ seed: UInt64, _ mode: Store.Configuration.IOMode) async throws -> Int {
    var random = SeededGenerator(seed: seed)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 400, ioMode: mode)
    configuration.compaction = seed % 3 == 0 ? CompactionPolicy() : .manual
    configuration.checkpointFloorBytes = 0
    let storage = MemoryStorage()
    var store = try Store(on: storage, at: "store", configuration: configuration)
    var replica = Replica()
    let what = Comment(rawValue: "MORAINE_REPLICA_SEEDS=\(seed + 1), seed \(seed), \(mode)")
    for _ in 0..<80 {
      let keyspace = try store.keyspace(named: ["", "b"][Int(random.next() % 2)])
      let key = Key("key \(random.next() % 12)")
      switch random.next() % 16 {
      case 0..<7:
        let length = Int(random.next() % 50)
        try await keyspace.set([UInt8](repeating: UInt8(seed % 256), count: length), forKey: key)
      case 7..<11: try await keyspace.removeValue(forKey: key)
      case 11:
        try await store.write { batch in
          try batch.set([1], forKey: key, in: keyspace)
          try batch.removeValue(forKey: "key 1", in: keyspace)
          try batch.set([2], forKey: "key 2", in: keyspace)
        }
      case 12:
        let start = Int(random.next() % 4)
        try await store.compact(segments: start..<start + 1 + Int(random.next() % 3))
      case 13: _ = try await store.compact()
      case 14: try await replica.catchUp(store)
      default:
        try await store.close()
        store = try Store(on: storage, at: "store", configuration: configuration)
      }
    }
    try await replica.catchUp(store)
    var expected: [String: [UInt8]] = [:]
    for name in ["", "b"] {
      for (key, value) in try await contents(store.keyspace(named: name)) {
        expected["\(name)/\(key)"] = value
      }
    }
    #expect(replica.contents == expected, what)
    try await store.close()
    return replica.restarts
  }
}

extension Store {
  /// The number of the last change that the log still holds; nil for none.
  fileprivate func lastChange() async throws -> SequenceNumber? {
    let last = try await segmentStatistics().map(\.lastSequence).max() ?? .none
    return last == .none ? nil : last
  }
}
