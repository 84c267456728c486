import Foundation
public import MoraineEngine
import Synchronization

/// A repository of models of one type. It has the four operations of the actor-repository pattern,
/// but a save appends one model to a log and does not write one file with all models again.
///
/// ```swift
/// let users = try LocalRepository<User>(filename: "users")
/// try await users.save(User(id: 7, name: "Ada"))
/// let ada = try await users.find(by: 7)
/// ```
///
/// Several repositories of one process may use the same place at the same time; a change made by
/// one is visible to the others at once. The cache changes only after the append has succeeded.
/// Reads throw: a damaged model is never reported as absent.
public actor LocalRepository<Model: Codable & Identifiable & Sendable>
where Model.ID: Sendable {
  /// The keyspace that holds the models. A key is the text of an id, a value is an encoded model.
  public nonisolated let keyspace: Keyspace
  nonisolated let format: ModelFormat<Model>
  nonisolated let keys: ModelKey<Model.ID>
  nonisolated let durability: Durability?
  /// Name of the place of the models, for error messages.
  nonisolated let place: String
  let monitor: ChangeMonitor
  @usableFromInline var cache: ModelCache<Model.ID, Model>
  var localCommits = LocalCommits()
  /// Models that the repository was created with; empty after they have been saved.
  var first: [Model]
  /// The number of the operation that has saved these models; `.none` when none has.
  var firstSequence = SequenceNumber.none
  var preparation: Task<Result<Void, StoreError>, Never>?
  /// Nil when the repository declares no index.
  nonisolated let indexes: RepositoryIndexes<Model>?
  /// Whether the store's catalog has the declared indexes.
  var isRegistered: Bool

  init(
    _ keyspace: Keyspace, place: String, format: ModelFormat<Model>,
    indexes: RepositoryIndexes<Model>?, keys: ModelKey<Model.ID>, cache: CachePolicy,
    durability: Durability?, first: [Model] = []
  ) {
    self.indexes = indexes
    isRegistered = indexes == nil
    self.keyspace = keyspace
    self.place = place
    self.format = format
    self.keys = keys
    self.durability = durability
    self.first = first
    self.cache = ModelCache(cache)
    monitor = keyspace.monitor
    localCommits.restart(at: monitor.commitCount)
  }
}

/// The commits to a keyspace that the repository made itself. After a commit of another writer the
/// repository must not use its cache.
struct LocalCommits {
  /// The commit count up to which the repository knows all commits.
  private(set) var known: UInt64 = 0
  /// The latest commit that has ended.
  private var latest: UInt64 = 0
  private var later: Set<UInt64> = []
  private(set) var underWay = 0
  /// So many commits are never under way at the same time.
  private static var laterLimit: Int { 4096 }

  /// Number of commits after `known` that are remembered.
  var laterCount: Int { later.count }

  mutating func begin() { underWay += 1 }

  mutating func end(_ commit: UInt64?) {
    underWay -= 1
    latest = max(latest, commit ?? 0)
    guard let commit, commit > known else { return }
    // After a commit of another writer `known` stands still until the next restart, and programs
    // that only write never restart. A number that is too low only makes the cache distrusted.
    if later.count >= Self.laterLimit { later = [] }
    later.insert(commit)
    while later.remove(known + 1) != nil { known += 1 }
  }

  /// Whether no later commit has ended. Tasks may end in another order than their commits, and the
  /// cache may not have what the later one has left: it may be too large, or evicted.
  func isLatest(_ commit: UInt64) -> Bool { commit >= latest }

  mutating func restart(at count: UInt64) {
    known = count
    latest = max(latest, count)
    later = []
  }
}

extension LocalRepository {
  /// Saves a model under its id and replaces the model that had this id.
  ///
  /// - Throws: `.encodingFailed`, `.keyTooLarge`, `.valueTooLarge`, `.noSpace`, `.io`, `.poisoned`,
  ///   `.closed`. The model that was saved before then stays, in the cache too.
  /// - Complexity: O(model): one append.
  public func save(_ model: Model) async throws(StoreError) {
    try await save(contentsOf: CollectionOfOne(model))
  }

  /// Saves a model that expires. From that time on the repository does not return it, and later the
  /// store deletes it. A plain ``save(_:)`` makes it stay.
  ///
  /// - Throws: the errors of ``save(_:)``.
  public func save(_ model: Model, expiring expiry: Expiry) async throws(StoreError) {
    try await prepare()
    try await store(CollectionOfOne(model), expiring: expiry)
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

  /// - Returns: the number of the last operation; nil without models.
  @discardableResult
  func store(
    _ models: some Sequence<Model>, expiring expiry: Expiry = .never
  ) async throws(StoreError) -> SequenceNumber? {
    var operations: [KeyspaceOperation] = []
    var saved: [(id: Model.ID, model: Model, costBytes: Int)] = []
    let isUsed = indexes != nil || !cache.isOff
    for model in models {
      let key = keys.key(model.id)
      let bytes = try format.encode(model, key, place)
      let read = try isUsed ? format.asRead(model, bytes, key, place) : model
      operations.append(
        KeyspaceOperation(key: key, value: bytes, row: try indexes?.row(of: read)))
      if !cache.isOff { saved.append((model.id, read, bytes.count)) }
    }
    guard let receipt = try await commit(operations, expiring: expiry) else { return nil }
    // The cache does not look at the clock.
    guard expiry == .never else {
      for each in saved { cache.remove(each.id, at: receipt.sequence?.rawValue ?? 0) }
      return receipt.sequence
    }
    // The cache gets the number of the batch for each model: lower than those of later batches.
    // Of several models with one id, the store has the last one.
    guard let last = receipt.sequence?.rawValue else { return nil }
    var seen: Set<Model.ID> = []
    for each in saved.reversed() where saved.count == 1 || seen.insert(each.id).inserted {
      keep(
        ModelCache.Entry(model: each.model, sequence: last, costBytes: each.costBytes),
        for: each.id, of: receipt)
    }
    return receipt.sequence
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
    try await prepareToRead()
    let ids = Array(ids)
    let receipt = try await commit(
      ids.map { KeyspaceOperation(key: keys.key($0), value: nil) })
    guard let receipt, let last = receipt.sequence?.rawValue else { return }
    for id in ids {
      keep(ModelCache.Entry(model: nil, sequence: last, costBytes: 32), for: id, of: receipt)
    }
  }

  /// Puts what a commit has left under an id into the cache, unless a later commit has ended.
  func keep(
    _ entry: ModelCache<Model.ID, Model>.Entry, for id: Model.ID, of receipt: CommitReceipt
  ) {
    if localCommits.isLatest(receipt.commitCount) {
      cache.insert(entry, for: id)
    } else {
      cache.remove(id)
    }
  }

  /// Commits operations as one batch and counts the commit as this repository's own.
  ///
  /// - Returns: nil when there are no operations.
  private func commit(
    _ operations: [KeyspaceOperation], expiring expiry: Expiry = .never
  ) async throws(StoreError) -> CommitReceipt? {
    if operations.isEmpty { return nil }
    localCommits.begin()
    let receipt = ReceiptBox()
    do throws(StoreError) {
      try await keyspace.commit(
        operations, expiring: expiry, durability: durability, onVisible: receipt.put)
    } catch {
      // The batch may be visible: the error may come from the sync only.
      localCommits.end(nil)
      throw error
    }
    return endCommit(receipt)
  }

  /// Commits what the body adds to a batch, and counts the commit as this repository's own. No
  /// other writer, of any process, writes between the beginning of the body and the commit.
  ///
  /// - Parameter body: adds operations to the batch, unless it returns a failure.
  /// - Returns: the outcome of the body; no receipt when nothing was committed.
  func commit<Value: Sendable, Failure: Error>(
    _ body: sending (inout WriteBatch) throws(StoreError) -> Result<Value, Failure>
  ) async throws(StoreError) -> (outcome: Result<Value, Failure>, receipt: CommitReceipt?) {
    localCommits.begin()
    let receipt = ReceiptBox()
    let outcome: Result<Value, Failure>
    do throws(StoreError) {
      outcome = try await keyspace.commit(durability: durability, onVisible: receipt.put, body)
    } catch {
      localCommits.end(nil)
      throw error
    }
    return (outcome, endCommit(receipt))
  }

  private func endCommit(_ receipt: ReceiptBox) -> CommitReceipt? {
    let done = receipt.value
    guard let done, done.sequence != nil else {
      localCommits.end(nil)
      return nil
    }
    // Without a cache, no commit needs to be remembered.
    localCommits.end(cache.isOff ? nil : done.commitCount)
    return done
  }
}

/// Carries a receipt from the store's actor to the repository's actor.
private final class ReceiptBox: Sendable {
  private let box = Mutex<CommitReceipt?>(nil)

  @Sendable func put(_ receipt: CommitReceipt) { box.withLock { $0 = receipt } }

  var value: CommitReceipt? { box.withLock { $0 } }
}

extension LocalRepository {
  /// Returns the model with an id, or nil when there is none.
  ///
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; `.corrupted`, `.io`, `.closed`,
  ///   `.suspended`. The last two are also thrown for a model that is in memory.
  /// - Complexity: O(1) for a model in memory, otherwise O(model).
  @inlinable
  public func find(by id: Model.ID) async throws(StoreError) -> Model? {
    // Inlined into the caller, which knows the types: that makes the look-up much faster.
    if isCacheCurrent, let known = cache.young[id] { return known.model }
    return try await read(id)
  }

  /// Whether the cache surely agrees with the store. This check calls neither the store nor the
  /// disk; false may also mean that it does not know.
  @usableFromInline
  var isCacheCurrent: Bool {
    first.isEmpty && monitor.commitCount == localCommits.known && !monitor.hasNewsOfOthers
  }

  @usableFromInline
  func read(_ id: Model.ID) async throws(StoreError) -> Model? {
    try await prepareToRead()
    if monitor.hasNewsOfOthers { try await keyspace.store.applyPeerWrites() }
    if mayTrustCache(), let known = cache.entry(id) { return known.model }
    let key = keys.key(id)
    guard let found = try await keyspace.observedValue(forKey: key) else {
      throw StoreError(.closed, "the store was closed; open it again", file: place)
    }
    guard let bytes = found.value, let sequence = found.sequence else { return nil }
    let model = try format.decode(bytes, key, place)
    // Not if another commit has changed the keyspace since the model was read.
    if mayTrustCache(), monitor.commitCount == found.commitCount, !found.expires {
      cache.insert(
        ModelCache.Entry(model: model, sequence: sequence.rawValue, costBytes: bytes.count),
        for: id)
    }
    return model
  }

  /// Returns all models at one moment, in the order in which they were last saved.
  ///
  /// - Throws: the errors of ``find(by:)``, for the first model that cannot be read.
  /// - Complexity: O(bytes of the store's log).
  public func loadAll() async throws(StoreError) -> [Model] {
    try await prepareToRead()
    return try await decoded(try await keyspace.entries())
  }

  /// Returns the number of models.
  ///
  /// - Throws: the errors of ``/MoraineEngine/Keyspace/statistics()``.
  public func count() async throws(StoreError) -> Int {
    try await prepareToRead()
    return try await keyspace.count()
  }

  /// Empties the cache if a commit that is not this repository's has changed the keyspace.
  ///
  /// - Returns: whether the cache agrees with the store. While a save of this repository is under
  ///   way, the repository does not know whether the last commit is its own, and returns false.
  private func mayTrustCache() -> Bool {
    if cache.isOff { return false }
    let count = monitor.commitCount
    guard ChangeMonitor.isUsable(count) else { return false }
    if count == localCommits.known { return true }
    if localCommits.underWay > 0 { return false }
    cache.removeAll()
    localCommits.restart(at: count)
    return true
  }
}

extension LocalRepository {
  /// The number of models that one task decodes. Decoding takes most of the time of reading all
  /// models.
  private static var chunkCount: Int { 1_000 }

  /// Decodes models on all processors and keeps their order.
  ///
  /// - Throws: the errors of ``find(by:)``, for the first model that cannot be read.
  nonisolated func decoded(_ entries: [Store.Entry]) async throws(StoreError) -> [Model] {
    let starts = stride(from: 0, to: entries.count, by: Self.chunkCount)
    let chunks = starts.map { entries[$0..<min($0 + Self.chunkCount, entries.count)] }
    if chunks.count < 2 { return try decodedTogether(entries[...]) }
    let results = await withTaskGroup(of: (Int, Result<[Model], StoreError>).self) { group in
      for (number, chunk) in chunks.enumerated() {
        group.addTask {
          do throws(StoreError) { return (number, .success(try self.decodedTogether(chunk))) } catch
          {
            return (number, .failure(error))
          }
        }
      }
      var results = [Result<[Model], StoreError>](repeating: .success([]), count: chunks.count)
      for await (number, result) in group { results[number] = result }
      return results
    }
    var models: [Model] = []
    models.reserveCapacity(entries.count)
    for result in results { models += try result.get() }
    return models
  }

  /// Decodes the models as one array where that works: the decoder then starts and ends once, not
  /// for each model.
  private nonisolated func decodedTogether(
    _ entries: ArraySlice<Store.Entry>
  ) throws(StoreError) -> [Model] {
    if let models = format.decodeTogether(entries.lazy.map(\.value)),
      models.count == entries.count,
      // A value that is damaged can make the array decode into models that were not stored.
      zip(models, entries).allSatisfy({ keys.key($0.id) == $1.key })
    {
      return models
    }
    var models: [Model] = []
    for entry in entries { models.append(try format.decode(entry.value, entry.key, place)) }
    return models
  }
}
