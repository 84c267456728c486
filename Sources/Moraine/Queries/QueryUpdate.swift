import MoraineEngine

/// A new state of an observed query.
public struct QueryUpdate<Model: Identifiable & Sendable>: Sendable where Model.ID: Sendable {
  /// The models of the query, in its order.
  public internal(set) var models: QueryModels<Model>
  /// The steps from the state before to this one, in their order: each offset is valid after the
  /// steps before it. Empty in a ``isReload``.
  public internal(set) var steps: [QueryStep]
  /// Whether the state was read as a whole: the first one; and later, when a query with a limit has
  /// lost so many models that those after them are needed, or when the changes in between are not
  /// known any more.
  public internal(set) var isReload: Bool
  /// The error of a model that cannot be decoded, and that the state lacks: `.decodingFailed` or
  /// `.newerFormat`, with the id. Nil when there is none, and again after the model was saved or
  /// deleted.
  public internal(set) var failure: StoreError?
}

/// One difference between two states of an observed query.
public enum QueryStep: Hashable, Sendable {
  /// A model was inserted at the offset.
  case insert(Int)
  /// The model at the offset was removed.
  case remove(Int)
  /// The model at the offset has changed, and keeps its place.
  case update(Int)
  /// The model at the first offset was removed there, and is now at the second offset, counted
  /// after the removal. The model may have changed.
  case move(from: Int, to: Int)
}

/// The states of a query: the present one, and then one after each change of its models, by any
/// instance and any process.
///
/// A change costs O(log n), and not the query again. Changes that come faster than the loop takes
/// them are combined. The sequence ends when the store is closed or the task is cancelled.
///
/// ```swift
/// for try await update in users.query(where: \.city, is: "Bern").sorted(by: \.name).updates {
///   show(update.models)
/// }
/// ```
public struct QueryUpdates<Model: Codable & Identifiable & Sendable>: AsyncSequence, Sendable
where Model.ID: Sendable {
  public typealias Element = QueryUpdate<Model>
  public typealias Failure = StoreError

  let query: ModelQuery<Model>

  public func makeAsyncIterator() -> Iterator { Iterator(observer: QueryObserver(query)) }

  /// Waits for one state after the other. For one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let observer: QueryObserver<Model>

    /// - Throws: the errors of ``ModelQuery/fetch()``; the sequence has then ended. A model that
    ///   cannot be decoded is no error here: see ``QueryUpdate/failure``.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> QueryUpdate<Model>? {
      try await observer.next()
    }
  }
}

extension ModelQuery {
  /// The states of the query from now on.
  public var updates: QueryUpdates<Model> { QueryUpdates(query: self) }
}
