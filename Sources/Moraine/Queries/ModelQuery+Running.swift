import MoraineEngine

/// Models of a query, and the place at which the next ones follow.
public struct QueryPage<Model: Sendable>: Sendable {
  /// The models, in the order of the query.
  public let models: [Model]
  /// The place after the last model; nil when no further model follows.
  public let next: QueryToken?
}

/// A place in the results of a query. It names the last model by its place in the order, so models
/// that are saved or deleted elsewhere do not move it. It can be stored.
public struct QueryToken: Hashable, Sendable, Codable {
  /// The encoded values that the last model is sorted by.
  let values: [[UInt8]]
  /// The key of the last model's id.
  let key: [UInt8]
  /// The key of the entry that has led to the last model; nil without an index, and where the order
  /// of the index does not continue at the model.
  var entry: [UInt8]? = nil
}

/// What a query does: for logs, and for tests that a query uses its index.
public struct QueryExplanation: Hashable, Sendable, CustomStringConvertible {
  /// The name of the index; nil when all models are decoded.
  public let index: String?
  /// The number of entries of the index that are read, or of all models. A limit can lower it.
  public let candidateCount: Int
  /// Whether conditions are applied to decoded models.
  public let isFiltering: Bool
  /// Whether the models are sorted in memory. A query that meets a text of which its index has only
  /// the beginning sorts them in memory too.
  public let isSortingInMemory: Bool
  /// The number of models that a program has saved that did not know all indexes, and whose entries
  /// are not added yet.
  public let pendingCount: Int

  public var description: String {
    let source =
      index.map { "\(candidateCount) entries of the index '\($0)'" }
      ?? "all \(candidateCount) models"
    var text = source + (isFiltering ? ", decoded and filtered" : "")
    if isSortingInMemory { text += ", sorted in memory" }
    if pendingCount > 0 { text += ", and \(pendingCount) models without entries" }
    return text
  }
}

extension ModelQuery {
  /// Returns the models.
  ///
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; `.invalidArgument` for a query
  ///   that requires an index and has none, and when a filter throws; `.limitExceeded` when too
  ///   many models would be sorted in memory; `.corrupted`, `.io`, `.closed`.
  /// - Complexity: O(log n + models) with an index that answers the whole query, otherwise O(n).
  public func fetch() async throws(StoreError) -> [Model] {
    try await running { (run) async throws(StoreError) -> [Model] in
      try await run.found(limit: limit, after: nil).map(\.model)
    }
  }

  /// Returns the first model; nil when there is none. Throws the errors of ``fetch()``.
  public func first() async throws(StoreError) -> Model? {
    if limit == 0 { return nil }
    return try await self.limit(1).fetch().first
  }

  /// Returns the models after a place, up to the query's limit.
  ///
  /// - Parameter token: the place; nil for the beginning. It must come from the same query.
  /// - Throws: the errors of ``fetch()``; `.invalidArgument` for the token of another query.
  public func page(after token: QueryToken? = nil) async throws(StoreError) -> QueryPage<Model> {
    if let token, token.values.count != sorting.count {
      throw StoreError(
        .invalidArgument, "the token comes from a query with another order",
        file: repository.place)
    }
    let count = limit ?? .max
    return try await ordered.running { (run) async throws(StoreError) -> QueryPage<Model> in
      var found = try await run.found(limit: count == .max ? nil : count + 1, after: token)
      let hasMore = found.count > count
      if hasMore { found.removeLast() }
      let next = hasMore ? found.last.map { run.token(after: $0) } : nil
      return QueryPage(models: found.map(\.model), next: next)
    }
  }

  /// Returns the number of models.
  ///
  /// - Throws: the errors of ``fetch()``.
  /// - Complexity: O(log n) with an index that answers the whole query.
  public func count() async throws(StoreError) -> Int {
    let count = try await running { (run) async throws(StoreError) -> Int in
      try await run.count()
    }
    return min(limit ?? .max, count)
  }

  /// Returns how the query would be run now.
  ///
  /// - Throws: the errors of ``fetch()``, without those of single models.
  public func explain() async throws(StoreError) -> QueryExplanation {
    try await running { (run) async throws(StoreError) -> QueryExplanation in
      try await run.explanation()
    }
  }

  /// Runs the query at one moment; again at a later one, when another process has removed files of
  /// the moment by a compaction.
  private func running<Value: Sendable>(
    _ body: @Sendable (QueryRun<Model>) async throws(StoreError) -> Value
  ) async throws(StoreError) -> Value {
    try await repository.prepareToRead()
    return try await repository.keyspace.store.readingSnapshot {
      (snapshot) async throws(StoreError) -> Value in
      try await body(try await QueryRun(self, snapshot))
    }
  }

  /// The query with an order that pages can continue in: without one, that of the ids.
  private var ordered: ModelQuery {
    guard sorting.isEmpty else { return self }
    var query = self
    query.isSortedByKey = true
    return query
  }
}

/// A model that a query has found, and its place in the order.
struct FoundModel<Model: Sendable>: Sendable {
  let model: Model
  let key: Key
  /// The key of the entry that has led to the model; nil without an index.
  let entry: [UInt8]?
}
