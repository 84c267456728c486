public import MoraineEngine

// A call whose body throws has two forms, because it has two error types.
// `Store+TypedErrors.swift` says why.
extension LocalRepository {
  /// Reads a model, changes it, and saves it, as one step. No other writer, of any task and any
  /// process, writes between the read and the save, so no update is lost.
  ///
  /// ```swift
  /// try await counters.update(7) { counter in
  ///   var counter = counter ?? Counter(id: 7)
  ///   counter.visits += 1
  ///   return counter
  /// }
  /// ```
  ///
  /// The body runs while other writers wait: it should be short. If it must wait for something
  /// else, use a transaction (``find(by:in:isTracked:)``, ``save(_:in:)``). Several models are
  /// updated together with ``write(_:)``.
  ///
  /// - Parameters:
  ///   - id: the id of the model.
  ///   - expiry: the time at which the model ends; the default is the time of the model that it
  ///     replaces.
  ///   - body: receives the model, or nil when there is none, and returns the model to save, with
  ///     the same id, or nil to delete it. When it throws, nothing is written. When it returns a
  ///     model that is encoded to the same bytes as the one it received, nothing is written
  ///     either; JSON may have the members of an object in another order.
  /// - Returns: the model that the body has returned.
  /// - Throws: the errors of the body, of ``save(_:)`` and of ``find(by:)``; `.invalidArgument`
  ///   when the new model has another id.
  /// - Complexity: O(model): a read and one append.
  @discardableResult
  public func update(
    _ id: Model.ID, expiring expiry: Expiry = .unchanged,
    _ body: sending (Model?) throws(StoreError) -> Model?
  ) async throws(StoreError) -> Model? {
    try await replace(id, expiry, body).get()
  }

  /// Reads a model, changes it, and saves it, as one step, with a body that throws any error. See
  /// ``update(_:expiring:_:)``.
  @discardableResult
  public func update(
    _ id: Model.ID, expiring expiry: Expiry = .unchanged,
    _ body: sending (Model?) throws -> Model?
  ) async throws -> Model? {
    try await replace(id, expiry, body).get()
  }

  private func replace<Failure: Error>(
    _ id: Model.ID, _ expiry: Expiry, _ body: sending (Model?) throws(Failure) -> Model?
  ) async throws(StoreError) -> Result<Model?, Failure> {
    let refusal = try await prepareToDelete()
    let (key, keyspace, place) = (keys.key(id), keyspace, place)
    let (format, keys, indexes) = (format, keys, indexes)
    let isUsed = indexes != nil || !cache.isOff
    let (outcome, receipt) = try await commit {
      (batch) throws(StoreError) -> Result<(Model?, Replacement<Model>), Failure> in
      // Value and expiry of one moment: the model may end while the body runs.
      let stored = try batch.storedVersion(forKey: key, in: keyspace)
      let bytes = stored?.value
      let old = try bytes.map { (bytes) throws(StoreError) in
        try format.decode(bytes, key, place)
      }
      let new: Model?
      do throws(Failure) { new = try body(old) } catch { return .failure(error) }
      guard let new else {
        try batch.removeValue(forKey: key, in: keyspace)
        return .success((nil, Replacement(model: nil, costBytes: 32, expires: false)))
      }
      if let refusal { throw refusal }
      guard keys.key(new.id) == key else {
        throw StoreError(
          .invalidArgument, "an update of the model '\(key)' has returned '\(keys.key(new.id))'",
          file: place)
      }
      let encoded = try format.encode(new, key, place)
      let time = expiry == .unchanged ? stored?.expiry ?? .never : expiry
      var read = new
      if encoded != bytes || expiry != .unchanged {
        if isUsed { read = try format.asRead(new, encoded, key, place) }
        try batch.set(
          encoded, forKey: key, in: keyspace, expiring: time, row: try indexes?.row(of: read))
      }
      let replacement = Replacement(
        model: read, costBytes: encoded.count, expires: time != .never)
      return .success((new, replacement))
    }
    if case .success((_, let replacement)) = outcome, let receipt, receipt.sequence != nil {
      remember(id, replacement, receipt)
    }
    return outcome.map(\.0)
  }

  /// Puts a committed model into the cache, which does not look at the clock.
  private func remember(
    _ id: Model.ID, _ new: Replacement<Model>, _ receipt: CommitReceipt
  ) {
    let sequence = receipt.sequence?.rawValue ?? 0
    if new.expires {
      cache.remove(id, at: sequence)
    } else {
      keep(
        ModelCache.Entry(model: new.model, sequence: sequence, costBytes: new.costBytes),
        for: id, of: receipt)
    }
  }
}

/// The model that a commit leaves under an id.
struct Replacement<Model: Sendable>: Sendable {
  /// The model; nil when it was deleted.
  let model: Model?
  let costBytes: Int
  let expires: Bool
}

extension LocalRepository {
  /// Runs the body with a batch of saves and deletes, and then applies the batch: all of it, or
  /// nothing.
  ///
  /// ```swift
  /// try await accounts.write { batch in
  ///   guard var from = try batch.find(by: 1), var to = try batch.find(by: 2) else { return }
  ///   from.balance -= 10
  ///   to.balance += 10
  ///   try batch.save(from)
  ///   try batch.save(to)
  /// }
  /// ```
  ///
  /// The batch reads its own writes. No other writer, of any task and any process, writes between
  /// the beginning of the body and the end of the batch, so the body should be short. Several
  /// repositories of one store take part in a transaction instead (``save(_:in:)``).
  ///
  /// - Parameter body: when it throws, nothing is written.
  /// - Returns: the result of the body.
  /// - Throws: the errors of the body, and those of ``save(_:)``. `.notUnique` is thrown at the end
  ///   of the batch, because its models may exchange values of a unique index.
  @discardableResult
  public func write<Value: Sendable>(
    _ body: sending (inout RepositoryBatch<Model>) throws(StoreError) -> Value
  ) async throws(StoreError) -> Value {
    try await apply(body).get()
  }

  /// Runs the body, which throws any error, with a batch of saves and deletes, and then applies the
  /// batch. See ``write(_:)``.
  @discardableResult
  public func write<Value: Sendable>(
    _ body: sending (inout RepositoryBatch<Model>) throws -> Value
  ) async throws -> Value {
    try await apply(body).get()
  }

  private func apply<Value: Sendable, Failure: Error>(
    _ body: sending (inout RepositoryBatch<Model>) throws(Failure) -> Value
  ) async throws(StoreError) -> Result<Value, Failure> {
    let refusal = try await prepareToDelete()
    let models = RepositoryBatch<Model>.Parts(
      keyspace: keyspace, format: format, keys: keys, indexes: indexes, place: place)
    let (outcome, receipt) = try await commit {
      (batch) throws(StoreError) -> Result<(Value, [RepositoryBatch<Model>.Change]), Failure> in
      var typed = RepositoryBatch(batch, models)
      let value: Value
      do throws(Failure) { value = try body(&typed) } catch {
        batch = typed.takeBatch()
        return .failure(error)
      }
      let changes = typed.lastChanges
      batch = typed.takeBatch()
      if let refusal, changes.contains(where: { $0.operation.value != nil }) { throw refusal }
      try batch.add(changes.map(\.operation), in: models.keyspace, expiring: .never)
      return .success((value, changes))
    }
    if case .success((_, let changes)) = outcome, let receipt, receipt.sequence != nil {
      // Each id has one change. All have the number of the last operation, which is lower than
      // those of later commits.
      for change in changes { remember(change.id, change.replacement, receipt) }
    }
    return outcome.map(\.0)
  }
}

extension LocalRepository {
  /// Returns whether a model with an id exists, without decoding it: also a model that this program
  /// cannot decode exists.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`, `.suspended`.
  /// - Complexity: O(1) for a model in memory, otherwise O(bytes of the model).
  public func contains(_ id: Model.ID) async throws(StoreError) -> Bool {
    if isCacheCurrent, let known = cache.young[id] { return known.model != nil }
    try await prepareToRead()
    return try await keyspace.contains(keys.key(id))
  }

  /// Deletes all models in one atomic commit: after a crash all models exist, or none.
  ///
  /// A model that another task or process saves before the commit is deleted, and one that it saves
  /// later stays. Other calls of the store wait during the commit. Each deletion is a change of
  /// ``changes``. The space of the models is free after the next compaction.
  ///
  /// - Returns: the number of models that were deleted.
  /// - Throws: the errors of ``save(_:)`` and of ``loadAll()``, but a model that cannot be decoded
  ///   is deleted like the others. `.valueTooLarge` when the deletes together take more than
  ///   `StoreLimits.batchLengthBytes`, at about ten million models: delete them by their ids then.
  /// - Complexity: O(bytes of the store's log), and memory for the keys.
  @discardableResult
  public func deleteAll() async throws(StoreError) -> Int {
    try await prepareToRead()
    let keyspace = keyspace
    let (outcome, receipt) = try await commit {
      (batch) throws(StoreError) -> Result<Int, Never> in
      .success(try batch.removeAll(in: keyspace))
    }
    if let sequence = receipt?.sequence { cache.removeAll(at: sequence.rawValue) }
    return outcome.get()
  }

  /// Closes the store of this repository, so that another process can open it. All writes are on
  /// stable storage when this returns.
  ///
  /// The other repositories, readers and sequences of the same store in this process throw
  /// `.closed` from now on, like this one: also a store that was passed to
  /// ``init(in:named:format:indexes:cache:durability:)`` is closed. Closing again has no effect. To
  /// go on, create another repository.
  ///
  /// - Throws: the errors of ``/MoraineEngine/Store/close()``; the store is closed in any case.
  public func close() async throws(StoreError) { try await keyspace.store.close() }
}
