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

  init(_ store: any ObjectStore) { self.store = store }

  var traffic: ObjectTraffic { state.withLock { $0 } }

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
    return try await store.create(name, body)
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    count(sent: body.byteCount)
    try await store.put(name, body)
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    count()
    let bytes = try await store.get(name, range)
    if let bytes { state.withLock { $0.receivedBytes += bytes.count } }
    return bytes
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    count()
    try await store.remove(names)
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    count()
    return try await store.list(under: prefix, after: last, limit: limit)
  }
}
