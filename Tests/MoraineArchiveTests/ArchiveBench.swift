import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A store, and its archive in a simulated store of objects.
struct ArchiveBench {
  typealias State = [Key: [UInt8]]

  static let root = ObjectName.root.appending("users")

  let storage = MemoryStorage()
  let objects = SimulatedObjectStore()
  let events = EventCounts()
  var configuration = ArchiveConfiguration()

  init() {
    configuration.pollInterval = .seconds(1_000_000)
    configuration.onEvent = { [events] event in events.count(event) }
    configuration.interval = .seconds(1_000_000)
    configuration.firstPause = .microseconds(10)
    configuration.patience = .milliseconds(50)
    configuration.probesStore = false
  }

  /// Opens a store that is compacted and shipped only when the test says so.
  func store(
    _ path: FilePath = "store", _ mode: Store.Configuration.IOMode = .mapped
  ) throws -> Store {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.ioMode = mode
    configuration.compaction = .manual
    configuration.durability = .none
    return try Store(on: storage, at: path, configuration: configuration)
  }

  func archive(for store: Store? = nil) async throws -> Archive {
    try await Archive.open(
      objects, at: Self.root, createIfMissingFor: store, configuration: configuration)
  }

  func attach(_ store: Store) async throws -> ArchiveWriter {
    try await archive(for: store).attach(store)
  }

  /// Opens a follower that reads the archive only when the test says so.
  func follower(
    _ path: FilePath = "follower", _ mode: Store.Configuration.IOMode = .mapped
  ) async throws -> Follower {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.ioMode = mode
    configuration.compaction = .manual
    return try await archive().follow(
      in: path, on: storage, configuration: configuration, polls: false)
  }

  /// Restores a moment, and returns the state with the number of the last operation.
  func restored(
    _ point: RestorePoint = .latest, to path: FilePath
  ) async throws -> (state: State, sequence: SequenceNumber) {
    let report = try await archive().restore(to: path, at: point, on: storage)
    let store = try store(path)
    let state = try await store.contents()
    try await store.close()
    return (state, report.sequence)
  }
}

/// How often events of an archive happened.
final class EventCounts: Sendable {
  private let state = Mutex((gaps: 0, rebases: 0))

  var gaps: Int { state.withLock { $0.gaps } }
  var rebases: Int { state.withLock { $0.rebases } }

  func count(_ event: ArchiveEvent) {
    state.withLock { state in
      switch event {
      case .gap: state.gaps += 1
      case .rebased: state.rebases += 1
      default: break
      }
    }
  }
}

extension Store {
  /// Returns the entries of the unnamed keyspace, and those of `ordered` under other keys.
  func contents() async throws -> ArchiveBench.State {
    var state: ArchiveBench.State = [:]
    let snapshot = try await snapshot()
    try snapshot.scan { entry in
      state[entry.key] = entry.value
      return true
    }
    var count = 0
    try snapshot.keyspace(named: "ordered").scan { entry in
      state[Key(Array("ordered ".utf8) + Array(entry.key.bytes))] = entry.value
      count += 1
      return true
    }
    // Throws where the keyspace has lost its order.
    if count > 0 { #expect(try snapshot.keyspace(named: "ordered").count(in: .all) == count) }
    return state
  }

  /// Makes random changes.
  func change(_ count: Int, using random: inout SeededGenerator) async throws {
    let ordered = try orderedKeyspace(named: "ordered")
    for _ in 0..<count {
      let key = Key("key \(Int.random(in: 0..<40, using: &random))")
      let value = (0..<Int.random(in: 0..<200, using: &random)).map { _ in
        UInt8.random(in: .min ... .max, using: &random)
      }
      switch Int.random(in: 0..<12, using: &random) {
      case 0...1: try await removeValue(forKey: key)
      case 2: try await ordered.set(value, forKey: key)
      case 3:
        _ = try await write { batch in
          try batch.set(value, forKey: key)
          try batch.set(value, forKey: "other", in: ordered)
        }
      default: try await set(value, forKey: key)
      }
    }
  }
}
