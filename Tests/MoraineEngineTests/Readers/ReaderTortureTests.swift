import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Threads read the present state while another one writes single keys and batches, compacts, takes
/// snapshots and writes checkpoints. For ThreadSanitizer, and to find wrong answers.
///
/// `MORAINE_READER_SEEDS=N` runs seeds 0 to N - 1.
@Suite(.serialized, .timeLimit(.minutes(10))) struct ReaderTortureTests {
  static var seeds: Range<UInt64> {
    let text = ProcessInfo.processInfo.environment["MORAINE_READER_SEEDS"]
    return 0..<(text.flatMap { UInt64($0) } ?? 3)
  }

  @Test(arguments: SnapshotTests.modes)
  func everyReadSeesWholeBatchesAndTheLastWrites(mode: Store.Configuration.IOMode) async throws {
    for seed in Self.seeds { try await run(seed, mode) }
  }

  private func run(_ seed: UInt64, _ mode: Store.Configuration.IOMode) async throws {
    var random = SeededGenerator(seed: seed)
    var configuration = ReaderTests.configuration(mode)
    configuration.checkpointFloorBytes = 0
    if seed % 2 == 0 { configuration.compaction = CompactionPolicy() }
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: configuration)
    // The index is frozen often.
    await store.setRecentKeys([4, 64, 1 << 13][Int(seed % 3)])
    let ordered = try store.orderedKeyspace(named: "ordered")
    let readers = WatchedStore(try await store.reader())
    async let end: Void = readers.run(2, seed: seed)
    var snapshot: Store.Snapshot?
    for round in 1...120 as ClosedRange<UInt64> {
      try await write(round, store, ordered, &random)
      readers.written.store(round, ordering: .releasing)
      #expect(try readers.oneKey(5) >= round)
      switch random.next() % 24 {
      case 0: snapshot = try await store.snapshot()
      case 1: _ = try await store.compact()
      case 2: snapshot = nil
      default: break
      }
    }
    readers.isDone.store(true, ordering: .releasing)
    await end
    let replay = Comment(rawValue: "MORAINE_READER_SEEDS=\(seed + 1), seed \(seed), \(mode)")
    #expect(readers.complaints.withLock { $0 } == [], replay)
    #expect(readers.readCount.load(ordering: .relaxed) >= 2, replay)
    _ = snapshot
    try await store.close()
  }

  /// Writes the number of the round to all keys, in one batch or several.
  private func write(
    _ round: UInt64, _ store: Store, _ ordered: Keyspace, _ random: inout SeededGenerator
  ) async throws {
    let bytes = WatchedStore.bytes(round)
    try await store.write { batch in
      for number in 0..<WatchedStore.pairCount {
        try batch.set(bytes, forKey: Key("pair \(number)"))
        try batch.set(bytes, forKey: Key("pair \(number)"), in: ordered)
      }
    }
    for number in 0..<WatchedStore.singleCount {
      try await store.set(bytes, forKey: Key("single \(number)"))
      // Deleted keys stay deleted.
      if round == 1 { try await store.set([1], forKey: Key("deleted \(number)")) }
      if round == 2 { try await store.removeValue(forKey: Key("deleted \(number)")) }
    }
    // More keys, so that the index splits.
    for _ in 0..<random.next() % 40 {
      try await store.set([0], forKey: Key("other \(random.next() % 5000)"))
    }
  }
}

/// A reader on threads of their own, and what they have found.
private final class WatchedStore: Sendable {
  static let pairCount = 10
  static let singleCount = 10
  let written = Atomic<UInt64>(0)
  let isDone = Atomic(false)
  let complaints = Mutex<[String]>([])
  let readCount = Atomic(0)
  private let reader: Store.Reader
  private let ordered: Store.Reader

  init(_ reader: Store.Reader) {
    self.reader = reader
    ordered = reader.keyspace(named: "ordered")
  }

  static func bytes(_ round: UInt64) -> [UInt8] { Array("\(round)".utf8) }

  private static func round(_ bytes: [UInt8]?) throws -> UInt64 {
    guard let bytes else { return 0 }
    return try #require(UInt64(String(decoding: bytes, as: UTF8.self)))
  }

  func oneKey(_ number: Int) throws -> UInt64 {
    try Self.round(reader.value(forKey: Key("single \(number)")))
  }

  func run(_ count: Int, seed: UInt64) async {
    await withTaskGroup { group in
      for number in 0..<count {
        group.addTask {
          await withCheckedContinuation { continuation in
            Thread.detachNewThread {
              self.read(seed: seed &* 16 &+ UInt64(number))
              continuation.resume()
            }
          }
        }
      }
    }
  }

  private func read(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    repeat {
      do {
        if let complaint = try complaint(&random) { complaints.withLock { $0.append(complaint) } }
      } catch {
        complaints.withLock { $0.append("\(error)") }
      }
      readCount.add(1, ordering: .relaxed)
    } while !isDone.load(ordering: .acquiring)
  }

  private func complaint(_ random: inout SeededGenerator) throws -> String? {
    let known = written.load(ordering: .acquiring)
    let number = Int(random.next() % 10)
    switch random.next() % 4 {
    case 0:
      let found = try oneKey(number)
      return found < known ? "round \(found) after round \(known) was written" : nil
    case 1:
      // The second key of a batch is not older than the first one.
      let first = try Self.round(reader.value(forKey: Key("pair \(number)")))
      let second = try Self.round(ordered.value(forKey: Key("pair \(9 - number)")))
      return second < first || first < known
        ? "\(first), then \(second), and \(known) was written" : nil
    case 2:
      let first = try Self.round(ordered.value(forKey: Key("pair \(number)")))
      let second = try Self.round(reader.value(forKey: Key("pair \(9 - number)")))
      return second < first || first < known
        ? "\(first), then \(second), and \(known) was written" : nil
    default:
      let found = try reader.value(forKey: Key("deleted \(number)"))
      return known > 1 && found != nil ? "a deleted key came back" : nil
    }
  }
}

extension Store {
  fileprivate func setRecentKeys(_ count: Int) {
    readers.views.recentKeys.store(count, ordering: .relaxed)
  }
}
