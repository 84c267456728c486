import MoraineEngine

/// A query of a repository's models: conditions, an order and a limit.
///
/// ```swift
/// let page = try await users.query(where: \.city, is: "Bern")
///   .where(\.age, in: 20..<30)
///   .sorted(by: \.name)
///   .limit(50)
///   .fetch()
/// ```
///
/// A query uses at most one index: the one that matches the most conditions, where an equal value
/// counts twice as much as a range, and among these the one that has the wanted order. The numbers
/// of the models do not count, so the pages of a query all use the same index. Models that the
/// index does not exclude are decoded, and the other conditions are applied to them. Without a
/// suitable index, all models are decoded; ``explain()`` says so, and ``requiringIndex()`` makes it
/// an error.
///
/// A query reads the models at one moment, off the store's actor. A query is a value: it can be
/// kept, changed and run any number of times.
public struct ModelQuery<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: Sendable {
  /// The repository whose models the query returns.
  public let repository: LocalRepository<Model>
  var conditions: [QueryCondition<Model>] = []
  var filters: [@Sendable (Model) throws -> Bool] = []
  var sorting: [QuerySorting<Model>] = []
  var limit: Int?
  var requiresIndex = false
  /// The name of the index that the caller has named.
  var namedIndex: String?
  /// Whether the models are in the order of their ids' keys when no order is given.
  var isSortedByKey = false
  /// The most models that are sorted in memory.
  var sortedLimit = 1_000_000

  init(_ repository: LocalRepository<Model>) { self.repository = repository }
}

/// One property to sort by.
struct QuerySorting<Model: Sendable>: Sendable {
  let path: any PartialKeyPath<Model> & Sendable
  let order: KeyOrder
  let encode: @Sendable (Model, inout IndexEncoder) -> Void
}

extension LocalRepository {
  /// Returns a query of all models.
  public nonisolated func query() -> ModelQuery<Model> { ModelQuery(self) }

  /// Returns a query of the models whose property has a value.
  public nonisolated func query<Value: IndexValue>(
    where path: any KeyPath<Model, Value> & Sendable, is value: Value
  ) -> ModelQuery<Model> {
    query().where(path, is: value)
  }

  /// Returns a query of the models whose property has a value of a range.
  public nonisolated func query<Values: QueryRangeConvertible>(
    where path: any KeyPath<Model, Values.Value> & Sendable, in range: Values
  ) -> ModelQuery<Model> {
    query().where(path, in: range)
  }

  /// Returns a query of the models whose property is not nil and has a value of a range.
  public nonisolated func query<Values: QueryRangeConvertible>(
    where path: any KeyPath<Model, Values.Value?> & Sendable, in range: Values
  ) -> ModelQuery<Model> {
    query().where(path, in: range)
  }

  /// Returns a query of the models whose text begins with another text.
  public nonisolated func query(
    where path: any KeyPath<Model, String> & Sendable, hasPrefix prefix: String
  ) -> ModelQuery<Model> {
    query().where(path, hasPrefix: prefix)
  }

  /// Returns a query of the models that have a value among the values of a property.
  public nonisolated func query<Elements: Sequence & SendableMetatype>(
    whereAny path: any KeyPath<Model, Elements> & Sendable, is value: Elements.Element
  ) -> ModelQuery<Model> where Elements.Element: IndexValue {
    query().where(any: path, is: value)
  }

  /// Returns the model whose property has a value; the first one if several models have it, and nil
  /// if none has. With a unique index there is at most one.
  ///
  /// - Throws: the errors of ``ModelQuery/fetch()``.
  /// - Complexity: O(log n) with an index of the property.
  public nonisolated func find<Value: IndexValue>(
    _ path: any KeyPath<Model, Value> & Sendable, _ value: Value
  ) async throws(StoreError) -> Model? {
    try await query(where: path, is: value).first()
  }
}

extension ModelQuery {
  /// Returns the query with another condition: a property has a value.
  public func `where`<Value: IndexValue>(
    _ path: any KeyPath<Model, Value> & Sendable, is value: Value
  ) -> ModelQuery {
    adding(QueryCondition(path, .equal { $0.append(value) }))
  }

  /// Returns the query with another condition: a property has a value of a range.
  public func `where`<Values: QueryRangeConvertible>(
    _ path: any KeyPath<Model, Values.Value> & Sendable, in range: Values
  ) -> ModelQuery {
    adding(QueryCondition(path, range.queryRange.values(for: Model.self)))
  }

  /// Returns the query with another condition: a property that may be nil has a value of a range.
  public func `where`<Values: QueryRangeConvertible>(
    _ path: any KeyPath<Model, Values.Value?> & Sendable, in range: Values
  ) -> ModelQuery {
    adding(QueryCondition(path, in: range))
  }

  /// Returns the query with another condition: a text begins with another text, as
  /// `String.hasPrefix(_:)` says. An index of the property can answer it.
  public func `where`(
    _ path: any KeyPath<Model, String> & Sendable, hasPrefix prefix: String
  ) -> ModelQuery {
    adding(QueryCondition(path, prefix: prefix))
  }

  /// Returns the query with another condition: one of the values of a property is this one.
  public func `where`<Elements: Sequence & SendableMetatype>(
    any path: any KeyPath<Model, Elements> & Sendable, is value: Elements.Element
  ) -> ModelQuery where Elements.Element: IndexValue {
    adding(QueryCondition(each: path, .equal { $0.append(value) }))
  }

  /// Returns the query with another condition: one of the values of a property is in a range.
  public func `where`<Elements: Sequence & SendableMetatype, Values: QueryRangeConvertible>(
    any path: any KeyPath<Model, Elements> & Sendable, in range: Values
  ) -> ModelQuery where Elements.Element == Values.Value {
    adding(QueryCondition(each: path, range.queryRange.values(for: Model.self)))
  }

  /// Returns the query with another condition, which is applied to each decoded model.
  public func filter(_ isIncluded: @escaping @Sendable (Model) throws -> Bool) -> ModelQuery {
    var query = self
    query.filters.append(isIncluded)
    return query
  }

  /// Returns the query in the order of a property; a further call adds a property for the models
  /// whose properties before are equal. Models that are equal in all of them are in the order of
  /// their ids' keys, in the direction of the last property.
  ///
  /// Without an order, ``page(after:)``, ``updates`` and ``LiveModels`` have the models in the
  /// order of their ids' keys. So have ``fetch()`` and ``first()``, except where an index is used
  /// that has one value of each model: they have the order of that index. With a limit, they can
  /// then return other models than a page does.
  public func sorted<Value: IndexValue>(
    by path: any KeyPath<Model, Value> & Sendable, _ order: KeyOrder = .ascending
  ) -> ModelQuery {
    var query = self
    query.sorting.append(
      QuerySorting(path: path, order: order) { $1.append($0[keyPath: path]) })
    return query
  }

  /// Returns the query with at most this number of models.
  public func limit(_ count: Int) -> ModelQuery {
    precondition(count >= 0, "a query has a negative limit")
    var query = self
    // No result is longer, and sums with the limit do not overflow.
    query.limit = min(count, 1 << 40)
    return query
  }

  /// Returns the query with an index that the caller has chosen. The query returns only models that
  /// the index has: this is how a partial index is used.
  ///
  /// - Parameter index: the name of an index that the repository declares.
  public func using(_ index: String) -> ModelQuery {
    var query = self
    query.namedIndex = index
    return query
  }

  /// Returns the query for a program that must not decode all models: without a suitable index,
  /// running the query throws `.invalidArgument`. While the index is being built, it throws too.
  public func requiringIndex() -> ModelQuery {
    var query = self
    query.requiresIndex = true
    return query
  }

  /// Returns the query with a bound on the models that are sorted in memory, where no index has the
  /// order, or not of all texts; otherwise the bound is a million. A query with more models throws
  /// `.limitExceeded`. A query with a limit needs memory for its limit only. A query without an
  /// order has no bound: it sorts nothing but its result.
  public func sortingInMemory(atMost count: Int) -> ModelQuery {
    var query = self
    query.sortedLimit = count
    return query
  }

  func adding(_ condition: QueryCondition<Model>) -> ModelQuery {
    var query = self
    query.conditions.append(condition)
    return query
  }

  /// Returns whether a model fulfils all conditions.
  func includes(_ model: Model) throws(StoreError) -> Bool {
    guard conditions.allSatisfy({ $0.holds(model) }) else { return false }
    if let index = try declaredIndex(), !index.hasEntries(for: model) { return false }
    return try passesFilters(model)
  }

  func passesFilters(_ model: Model) throws(StoreError) -> Bool {
    for filter in filters {
      do {
        guard try filter(model) else { return false }
      } catch let error as StoreError {
        throw error
      } catch {
        throw StoreError(
          .invalidArgument, "the filter of a query has thrown an error: \(error)",
          file: repository.place)
      }
    }
    return true
  }

  /// Returns the index that the caller has named; nil when it has named none.
  func declaredIndex() throws(StoreError) -> ModelIndex<Model>? {
    guard let namedIndex else { return nil }
    guard let index = repository.indexes?.definitions.first(where: { $0.name == namedIndex })
    else {
      throw StoreError(
        .invalidArgument, "the repository declares no index '\(namedIndex)'",
        file: repository.place)
    }
    return index
  }
}
