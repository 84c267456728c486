public import MoraineEngine

// The four operations as parts of a transaction. The transaction's durability counts, not the
// repository's. Repositories of one store can take part together:
//
//   try await store.transaction { transaction in
//     guard var account = try await accounts.find(by: 7, in: transaction) else { throw Missing() }
//     account.balance -= order.price
//     try await accounts.save(account, in: transaction)
//     try await orders.save(order, in: transaction)
//   }
extension LocalRepository {
  /// Saves a model when the transaction is committed.
  ///
  /// - Parameters:
  ///   - model: the model.
  ///   - transaction: a transaction of the repository's own store.
  /// - Throws: `.encodingFailed`, `.keyTooLarge`, `.valueTooLarge`.
  public nonisolated func save(
    _ model: Model, in transaction: Store.Transaction
  ) async throws(StoreError) {
    try await prepare()
    let key = keys.key(model.id)
    let bytes = try format.encode(model, key, place)
    let row = try indexes?.row(of: format.asRead(model, bytes, key, place))
    try transaction.set(bytes, forKey: key, in: keyspace, row: row)
  }

  /// Deletes the model with an id, if one exists, when the transaction is committed.
  ///
  /// - Parameters:
  ///   - id: the id of the model.
  ///   - transaction: a transaction of the repository's own store.
  /// - Throws: `.keyTooLarge`.
  public nonisolated func delete(
    _ id: Model.ID, in transaction: Store.Transaction
  ) async throws(StoreError) {
    try await prepareToRead()
    try transaction.removeValue(forKey: keys.key(id), in: keyspace)
  }

  /// Returns the model with an id as the transaction sees it, or nil when there is none.
  ///
  /// - Parameters:
  ///   - id: the id of the model.
  ///   - transaction: a transaction of the repository's own store.
  ///   - isTracked: whether a change of the model by another writer is a conflict.
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; `.corrupted`, `.io`, `.closed`;
  ///   `.conflict` when the attempt began before the models were saved that the repository was
  ///   created with: the body then runs again and sees them, and no retry is counted.
  /// - Complexity: O(model).
  public nonisolated func find(
    by id: Model.ID, in transaction: Store.Transaction, isTracked: Bool = true
  ) async throws(StoreError) -> Model? {
    try transaction.require(try await firstSequenceAfterSaving(), in: keyspace)
    let key = keys.key(id)
    guard
      let bytes = try transaction.value(forKey: key, in: keyspace, isTracked: isTracked)
    else { return nil }
    return try format.decode(bytes, key, place)
  }

  /// Returns all models as the transaction sees them: first those of the store, in the order in
  /// which they were last saved, and then those that the transaction has saved itself.
  ///
  /// - Parameters:
  ///   - transaction: a transaction of the repository's own store.
  ///   - isTracked: whether it is a conflict when another writer saves or deletes any model.
  /// - Throws: the errors of ``find(by:in:isTracked:)``.
  /// - Complexity: O(bytes of the store's log).
  public nonisolated func loadAll(
    in transaction: Store.Transaction, isTracked: Bool = true
  ) async throws(StoreError) -> [Model] {
    try transaction.require(try await firstSequenceAfterSaving(), in: keyspace)
    return try await decoded(
      try transaction.allEntries(of: keyspace, isTracked: isTracked))
  }

  /// Saves the models that the repository was created with, for a read of a transaction.
  ///
  /// - Returns: the number of the operation that has saved these models. An attempt that began
  ///   before it does not see the models.
  private func firstSequenceAfterSaving() async throws(StoreError) -> SequenceNumber {
    try await prepareToRead()
    return firstSequence
  }
}
