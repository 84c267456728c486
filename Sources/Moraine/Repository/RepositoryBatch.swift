public import MoraineEngine

/// Saves and deletes of models that will be applied together. A batch exists only inside
/// ``LocalRepository/write(_:)``.
public struct RepositoryBatch<Model: Codable & Identifiable & Sendable>: ~Copyable
where Model.ID: Sendable {
  /// The parts of a repository that a batch uses.
  struct Parts: Sendable {
    let keyspace: Keyspace
    let format: ModelFormat<Model>
    let keys: ModelKey<Model.ID>
    let indexes: RepositoryIndexes<Model>?
    let place: String
  }

  /// A save or a delete.
  struct Change: Sendable {
    let id: Model.ID
    let operation: KeyspaceOperation
    let replacement: Replacement<Model>
  }

  private var batch: WriteBatch
  private let parts: Parts
  /// All changes in their order. They reach the batch at its end, the last one of each model:
  /// models may exchange values of a unique index.
  private var changes: [Change] = []
  /// Index of each key's last change.
  private var latest: [Key: Int] = [:]
  /// The expiries of the models that were found; `.never` where none was found.
  private var expiries: [Key: Expiry] = [:]

  init(_ batch: consuming WriteBatch, _ parts: Parts) {
    self.batch = batch
    self.parts = parts
  }

  consuming func takeBatch() -> WriteBatch { batch }

  /// The last change of each model, in their order.
  var lastChanges: [Change] {
    changes.enumerated().filter { latest[$1.operation.key] == $0 }.map(\.1)
  }

  /// Saves a model when the batch ends, and replaces the model with its id.
  ///
  /// - Parameters:
  ///   - model: the model.
  ///   - expiry: the time at which the model ends.
  /// - Throws: `.encodingFailed`, `.keyTooLarge`; the batch is then unchanged.
  public mutating func save(
    _ model: Model, expiring expiry: Expiry = .never
  ) throws(StoreError) {
    let key = parts.keys.key(model.id)
    let bytes = try parts.format.encode(model, key, parts.place)
    let read = try parts.format.asRead(model, bytes, key, parts.place)
    let row = try parts.indexes?.row(of: read)
    let (time, expires) = try resolved(expiry, key)
    add(
      Change(
        id: model.id,
        operation: KeyspaceOperation(key: key, value: bytes, row: row, expiry: time),
        replacement: Replacement(model: read, costBytes: bytes.count, expires: expires)))
  }

  /// Deletes the model with an id, if one exists, when the batch ends.
  public mutating func delete(_ id: Model.ID) {
    add(
      Change(
        id: id, operation: KeyspaceOperation(key: parts.keys.key(id), value: nil),
        replacement: Replacement(model: nil, costBytes: 32, expires: false)))
  }

  /// Returns the model with an id as this batch leaves it, or nil when there is none.
  ///
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; `.corrupted`, `.io`.
  /// - Complexity: O(model).
  public mutating func find(by id: Model.ID) throws(StoreError) -> Model? {
    let key = parts.keys.key(id)
    if let index = latest[key] { return changes[index].replacement.model }
    guard let stored = try batch.storedVersion(forKey: key, in: parts.keyspace) else {
      noteAbsence(of: key)
      return nil
    }
    expiries[key] = stored.expiry
    return try parts.format.decode(stored.value, key, parts.place)
  }

  /// Returns whether a model with an id exists as this batch leaves it.
  ///
  /// - Throws: `.corrupted`, `.io`.
  public mutating func contains(_ id: Model.ID) throws(StoreError) -> Bool {
    let key = parts.keys.key(id)
    if let index = latest[key] { return changes[index].replacement.model != nil }
    guard try batch.contains(key, in: parts.keyspace) else {
      noteAbsence(of: key)
      return false
    }
    return true
  }

  /// Records that the batch has seen no model: one that it saves replaces none.
  private mutating func noteAbsence(of key: Key) {
    if expiries[key] == nil { expiries[key] = .never }
  }

  private mutating func add(_ change: Change) {
    latest[change.operation.key] = changes.count
    changes.append(change)
  }

  /// Returns an expiry that does not refer to an earlier change of this batch, and whether the
  /// model expires.
  private mutating func resolved(
    _ expiry: Expiry, _ key: Key
  ) throws(StoreError) -> (expiry: Expiry, expires: Bool) {
    guard expiry == .unchanged else { return (expiry, expiry != .never) }
    guard let index = latest[key] else {
      // The expiry that the model had when it was found: it may have ended since.
      if let known = expiries[key] { return (known, known != .never) }
      guard let stored = try batch.storedVersion(forKey: key, in: parts.keyspace) else {
        // The model may have ended since the batch began.
        return (.unchanged, true)
      }
      return (stored.expiry, stored.expiry != .never)
    }
    return (changes[index].operation.expiry ?? .never, changes[index].replacement.expires)
  }
}
