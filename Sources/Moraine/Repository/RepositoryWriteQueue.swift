public import MoraineEngine

/// Saves, deletes and finds models of a repository on any thread without a call of an actor: for
/// the main actor, where each call of the repository is a change of threads.
///
/// ```swift
/// let notes = try await repository.writeQueue()  // once
/// try await notes.save(note)  // suspends only while the queue is full
/// let shown = try notes.find(by: note.id)  // finds the model that waits
/// try await notes.flush()  // the models are in the store
/// ```
///
/// ``/MoraineEngine/Store/WriteQueue`` says in which order the store applies the writes, when they
/// are durable and who learns of an error. The repository itself, its other readers and its queries
/// see a model when the store has applied the write. The repository empties its cache then.
public final class RepositoryWriteQueue<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: Sendable {
  private let queue: Store.WriteQueue
  private let reader: RepositoryReader<Model>
  private let format: ModelFormat<Model>
  private let keys: ModelKey<Model.ID>
  private let indexes: RepositoryIndexes<Model>?
  private let durability: Durability?
  private let place: String

  init(
    _ queue: Store.WriteQueue, _ reader: RepositoryReader<Model>,
    of repository: LocalRepository<Model>
  ) {
    self.queue = queue
    self.reader = reader
    (format, keys) = (repository.format, repository.keys)
    (indexes, durability) = (repository.indexes, repository.durability)
    place = repository.place
  }

  /// Queues a save, which replaces the model with this id. Suspends only while the queue is full.
  ///
  /// - Parameters:
  ///   - model: the model.
  ///   - expiry: the time at which the model ends. Until the store has applied the save,
  ///     ``find(by:)`` returns also a model that has ended.
  /// - Throws: `.encodingFailed`; the errors of
  ///   ``/MoraineEngine/Store/WriteQueue/set(_:forKey:expiring:)``.
  /// - Complexity: O(model).
  public nonisolated(nonsending) func save(
    _ model: Model, expiring expiry: Expiry = .never
  ) async throws(StoreError) {
    try await queue.addWaiting(try operation(saving: model), expiring: expiry)
  }

  /// Queues the removal of the model with an id. See ``save(_:expiring:)``.
  public nonisolated(nonsending) func delete(_ id: Model.ID) async throws(StoreError) {
    try await queue.addWaiting(KeyspaceOperation(key: keys.key(id), value: nil))
  }

  /// Queues a save, for code that cannot wait. See ``save(_:expiring:)``.
  ///
  /// - Returns: false when the queue is full; nothing was queued then.
  public func trySave(
    _ model: Model, expiring expiry: Expiry = .never
  ) throws(StoreError) -> Bool {
    try queue.add(try operation(saving: model), expiring: expiry)
  }

  /// Queues a removal, for code that cannot wait. See ``trySave(_:expiring:)``.
  public func tryDelete(_ id: Model.ID) throws(StoreError) -> Bool {
    try queue.add(KeyspaceOperation(key: keys.key(id), value: nil))
  }

  /// Returns the model that the last queued save of an id has left, or else the model in the store;
  /// nil when there is none.
  ///
  /// - Throws: the errors of ``RepositoryReader/find(by:)``.
  public func find(by id: Model.ID) throws(StoreError) -> Model? {
    let key = keys.key(id)
    guard let pending = try queue.pending(key) else { return try reader.find(by: id) }
    return try pending.value.map { (bytes) throws(StoreError) in
      try format.decode(bytes, key, place)
    }
  }

  /// Waits until the store has applied all writes that were queued before the call.
  ///
  /// - Parameter durability: what to wait for; nil for the repository's durability.
  /// - Throws: the error of the first write that could not be applied, until ``reset()``; it and
  ///   all later writes were dropped. Errors as in ``LocalRepository/save(_:)``.
  public func flush(durability: Durability? = nil) async throws(StoreError) {
    try await queue.flush(durability: durability ?? self.durability)
  }

  /// Makes a queue that has dropped writes take writes again.
  ///
  /// - Returns: the error; nil when there is none. See ``/MoraineEngine/Store/WriteQueue/reset()``.
  @discardableResult
  public func reset() throws(StoreError) -> StoreError? { try queue.reset() }

  private func operation(saving model: Model) throws(StoreError) -> KeyspaceOperation {
    let key = keys.key(model.id)
    let bytes = try format.encode(model, key, place)
    let row = try indexes?.row(of: format.asRead(model, bytes, key, place))
    return KeyspaceOperation(key: key, value: bytes, row: row)
  }
}

extension LocalRepository {
  /// Returns a queue of writes, for any thread and for the main actor.
  ///
  /// - Parameters:
  ///   - queue: a queue of the same store that orders these writes among others; nil for a new one.
  ///   - cache: which models the queue keeps in memory; the repository has its own cache.
  /// - Throws: the errors of ``save(_:)``, for models that the repository was created with; those
  ///   of ``find(by:)``.
  public func writeQueue(
    sharing queue: Store.WriteQueue? = nil, cache: CachePolicy = .bounded(bytes: 8 << 20)
  ) async throws(StoreError) -> RepositoryWriteQueue<Model> {
    try await prepare()
    let reader = RepositoryReader(
      try await keyspace.reader(), format, keys, place: place, cache)
    let shared: Store.WriteQueue
    if let queue { shared = queue } else { shared = try await keyspace.store.writeQueue() }
    return RepositoryWriteQueue(shared.keyspace(keyspace), reader, of: self)
  }
}
