/// A store of objects whose requests are repeated when the store has refused them for the moment,
/// and without an effect.
///
/// For the check of a store: some servers answer concurrent or frequent requests for one name in
/// this way, which is no reason to refuse them. All other errors reach the caller.
struct PatientObjectStore: ObjectStore {
  let store: any ObjectStore
  let patience: Patience

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) { return try await store.create(name, body) } catch {
        try await pause(after: error, &attempts)
      }
    }
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) { return try await store.put(name, body) } catch {
        try await pause(after: error, &attempts)
      }
    }
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) { return try await store.get(name, range) } catch {
        try await pause(after: error, &attempts)
      }
    }
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    var attempts = Attempts(patience)
    while true {
      do throws(ObjectStoreError) { return try await store.remove(names) } catch {
        try await pause(after: error, &attempts)
      }
    }
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await store.list(under: prefix, after: last, limit: limit)
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
