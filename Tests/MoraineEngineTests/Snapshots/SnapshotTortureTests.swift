import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Sixteen threads read snapshots while other tasks write, compact, and take new snapshots. For
/// ThreadSanitizer, and to find wrong answers.
@Suite(.timeLimit(.minutes(10))) struct SnapshotTortureTests {
  /// All keys of a round have the number of the round: a reader that finds two numbers has seen
  /// half a round.
  @Test(arguments: SnapshotTests.modes)
  func everyReaderSeesWholeRounds(mode: Store.Configuration.IOMode) async throws {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 20_000
    configuration.ioMode = mode
    configuration.durability = .none
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let keys = (0..<200).map { Key("key \($0)") }
    try await write(0, keys, store)
    let readers = Readers(try await store.snapshot())
    async let end: Void = readers.run(16, keys)
    for round in 1...150 as ClosedRange<UInt64> {
      try await write(round, keys, store)
      // More keys, so that the index splits.
      for number in 0..<40 { try await store.set([0], forKey: Key("\(round) \(number)")) }
      readers.current.withLock { [snapshot = try await store.snapshot()] in $0 = snapshot }
      if round % 10 == 0 { _ = try await store.compact() }
    }
    readers.isDone.store(true, ordering: .releasing)
    await end
    #expect(readers.complaints.withLock { $0 } == [])
    #expect(readers.readCount.load(ordering: .relaxed) >= 16)
    try await store.close()
  }

  private func write(_ round: UInt64, _ keys: [Key], _ store: Store) async throws {
    try await store.write { batch in
      for key in keys { try batch.set(Array("\(round)".utf8), forKey: key) }
    }
  }
}

/// Threads of their own: readers need no task.
private final class Readers: Sendable {
  let current: Mutex<Store.Snapshot>
  let isDone = Atomic(false)
  let complaints = Mutex<[String]>([])
  let readCount = Atomic(0)

  init(_ snapshot: Store.Snapshot) { current = Mutex(snapshot) }

  func run(_ count: Int, _ keys: [Key]) async {
    await withTaskGroup { group in
      for number in 0..<count {
        group.addTask {
          await withCheckedContinuation { continuation in
            Thread.detachNewThread {
              self.read(keys, seed: UInt64(number))
              continuation.resume()
            }
          }
        }
      }
    }
  }

  private func read(_ keys: [Key], seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    repeat {
      let snapshot = current.withLock { $0 }
      if let complaint = complaint(snapshot, keys[Int(random.next() % UInt64(keys.count))], keys) {
        complaints.withLock { $0.append(complaint) }
      }
      readCount.add(1, ordering: .relaxed)
    } while !isDone.load(ordering: .acquiring)
  }

  private func complaint(_ snapshot: Store.Snapshot, _ key: Key, _ keys: [Key]) -> String? {
    do {
      let one = try snapshot.value(forKey: key)
      let many = try snapshot.values(forKeys: keys)
      let different = many.count { $0 != one || $0 == nil }
      return different == 0 ? nil : "\(different) keys of another round"
    } catch {
      return "\(error)"
    }
  }
}
