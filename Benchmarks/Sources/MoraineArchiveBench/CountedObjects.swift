import MoraineArchive
import Synchronization

/// A store of objects that counts the requests to another one, and can be made unreachable.
final class CountedObjects: ObjectStore {
  /// The requests and bytes so far.
  struct Counts {
    var creations = 0
    var puts = 0
    var gets = 0
    var removals = 0
    var lists = 0
    var sentBytes = 0
    var receivedBytes = 0

    var all: Int { creations + puts + gets + removals + lists }

    static func - (after: Counts, before: Counts) -> Counts {
      Counts(
        creations: after.creations - before.creations, puts: after.puts - before.puts,
        gets: after.gets - before.gets, removals: after.removals - before.removals,
        lists: after.lists - before.lists, sentBytes: after.sentBytes - before.sentBytes,
        receivedBytes: after.receivedBytes - before.receivedBytes)
    }
  }

  private let base: any ObjectStore
  private let state = Mutex(Counts())
  /// Whether requests reach the store.
  let isReachable = Atomic(true)

  init(_ base: any ObjectStore) { self.base = base }

  var counts: Counts { state.withLock { $0 } }

  private func count(_ change: (inout Counts) -> Void) throws(ObjectStoreError) {
    guard isReachable.load(ordering: .sequentiallyConsistent) else {
      throw ObjectStoreError(
        .unavailable, "the benchmark has cut the connection", mayHaveHadEffect: false)
    }
    state.withLock { change(&$0) }
  }

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    try count {
      $0.creations += 1
      $0.sentBytes += body.byteCount
    }
    return try await base.create(name, body)
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    try count {
      $0.puts += 1
      $0.sentBytes += body.byteCount
    }
    try await base.put(name, body)
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    try count { $0.gets += 1 }
    let bytes = try await base.get(name, range)
    state.withLock { $0.receivedBytes += bytes?.count ?? 0 }
    return bytes
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    try count { $0.removals += 1 }
    try await base.remove(names)
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try count { $0.lists += 1 }
    return try await base.list(under: prefix, after: last, limit: limit)
  }
}
