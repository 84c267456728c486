public import MoraineEngine
import Synchronization

extension LocalRepository {
  /// Saves a model under its id and replaces the model that had this id.
  ///
  /// - Throws: `.encodingFailed`, `.keyTooLarge`, `.valueTooLarge`, `.noSpace`, `.io`, `.poisoned`,
  ///   `.closed`. The model that was saved before then stays, in the cache too.
  /// - Complexity: O(model): one append.
  public func save(_ model: Model) async throws(StoreError) {
    try await save(contentsOf: CollectionOfOne(model))
  }

  /// Saves models as one atomic batch: all of them, or none. If two models have the same id, the
  /// last one counts.
  ///
  /// - Throws: the errors of ``save(_:)``.
  public func save(
    contentsOf models: some Sequence<Model> & Sendable
  ) async throws(StoreError) {
    try await prepare()
    try await store(models)
  }

  func store(_ models: some Sequence<Model>) async throws(StoreError) {
    var operations: [(key: Key, value: [UInt8]?)] = []
    var saved: [(model: Model, costBytes: Int)] = []
    for model in models {
      let key = keys.key(model.id)
      let bytes: [UInt8]
      do { bytes = try format.encode(model) } catch {
        throw StoreError(
          .encodingFailed, "the model '\(key)' cannot be encoded: \(error)", file: place)
      }
      operations.append((key, bytes))
      saved.append((model, bytes.count))
    }
    guard let receipt = try await commit(operations) else { return }
    // The operations of a batch have consecutive numbers.
    let last = receipt.sequence?.rawValue ?? 0
    for (index, each) in saved.enumerated() {
      cache.insert(
        ModelCache.Entry(
          model: each.model, sequence: last - UInt64(saved.count - 1 - index),
          costBytes: each.costBytes),
        for: each.model.id)
    }
  }

  /// Deletes the model with an id, if one exists.
  ///
  /// - Throws: the errors of ``save(_:)``.
  public func delete(_ id: Model.ID) async throws(StoreError) {
    try await delete(contentsOf: CollectionOfOne(id))
  }

  /// Deletes models as one atomic batch.
  ///
  /// - Throws: the errors of ``save(_:)``.
  public func delete(
    contentsOf ids: some Sequence<Model.ID> & Sendable
  ) async throws(StoreError) {
    try await prepare()
    let ids = Array(ids)
    let receipt = try await commit(ids.map { (keys.key($0), nil) })
    guard let last = receipt?.sequence else { return }
    for id in ids {
      cache.insert(ModelCache.Entry(model: nil, sequence: last.rawValue, costBytes: 32), for: id)
    }
  }

  /// Commits operations as one batch and counts the commit as this repository's own.
  ///
  /// - Returns: nil when there are no operations.
  private func commit(
    _ operations: [(key: Key, value: [UInt8]?)]
  ) async throws(StoreError) -> CommitReceipt? {
    if operations.isEmpty { return nil }
    localCommits.begin()
    let receipt = ReceiptBox()
    do throws(StoreError) {
      try await keyspace.commit(operations, durability: durability, onVisible: receipt.put)
    } catch {
      // The batch may be visible: the error may come from the sync only.
      localCommits.end(nil)
      throw error
    }
    let done = receipt.value
    localCommits.end(done?.sequence == nil ? nil : done?.commitCount)
    return done
  }
}

/// Carries a receipt from the store's actor to the repository's actor.
private final class ReceiptBox: Sendable {
  private let box = Mutex<CommitReceipt?>(nil)

  @Sendable func put(_ receipt: CommitReceipt) { box.withLock { $0 = receipt } }

  var value: CommitReceipt? { box.withLock { $0 } }
}
