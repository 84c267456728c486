/// A store of objects whose requests are repeated when the store has refused them for the moment,
/// and without an effect.
///
/// The check of a store uses it: some servers answer concurrent or frequent requests for one name
/// in this way, which is no reason to refuse them. All other errors reach the caller.
struct PatientObjectStore: ObjectStore {
  let store: any ObjectStore
  let patience: Patience

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    try await repeating { () async throws(ObjectStoreError) in try await store.create(name, body) }
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    try await repeating { () async throws(ObjectStoreError) in try await store.put(name, body) }
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    try await repeating { () async throws(ObjectStoreError) in try await store.get(name, range) }
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    try await repeating { () async throws(ObjectStoreError) in try await store.remove(names) }
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await store.list(under: prefix, after: last, limit: limit)
  }

  private func repeating<Answer>(
    _ request: () async throws(ObjectStoreError) -> Answer
  ) async throws(ObjectStoreError) -> Answer {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) { return try await request() } catch {
        try await pause(after: error, &attempts)
      }
    }
  }

  private func pause(
    after error: ObjectStoreError, _ attempts: inout Attempts
  ) async throws(ObjectStoreError) {
    guard error.code == .unavailable, !error.mayHaveHadEffect else { throw error }
    do throws(ArchiveError) { try await attempts.pause(after: error) } catch let failure {
      guard failure.code == .cancelled else { throw error }
      throw ObjectStoreError(
        .cancelled, failure.message, object: error.object, mayHaveHadEffect: false)
    }
  }
}
