import Synchronization

/// The requests of a writer or of a follower, and their bytes, since it began.
public struct ObjectTraffic: Hashable, Sendable {
  /// The requests, repeated ones included.
  public internal(set) var requestCount = 0
  /// The bytes of the bodies that were sent.
  public internal(set) var sentBytes = 0
  /// The bytes of the bodies that were received.
  public internal(set) var receivedBytes = 0
}

/// A store of objects that counts the requests to another one.
final class MeteredObjectStore: ObjectStore {
  private let store: any ObjectStore
  private let state = Mutex(ObjectTraffic())
  /// Relaxed: no other memory depends on the number.
  private let answers = Atomic(0)

  init(_ store: any ObjectStore) { self.store = store }

  var traffic: ObjectTraffic { state.withLock { $0 } }

  /// The number of requests that the store has answered without an error.
  var answerCount: Int { answers.load(ordering: .relaxed) }

  private func count(sent bytes: Int = 0) {
    state.withLock { traffic in
      traffic.requestCount += 1
      traffic.sentBytes += bytes
    }
  }

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    count(sent: body.byteCount)
    let creation = try await store.create(name, body)
    answers.add(1, ordering: .relaxed)
    return creation
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    count(sent: body.byteCount)
    try await store.put(name, body)
    answers.add(1, ordering: .relaxed)
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    count()
    let bytes = try await store.get(name, range)
    answers.add(1, ordering: .relaxed)
    if let bytes { state.withLock { $0.receivedBytes += bytes.count } }
    return bytes
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    count()
    try await store.remove(names)
    answers.add(1, ordering: .relaxed)
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    count()
    let names = try await store.list(under: prefix, after: last, limit: limit)
    answers.add(1, ordering: .relaxed)
    return names
  }
}
