public import MoraineEngine
public import Observation

/// The models of a repository for a view. The class is observable and follows all changes, from all
/// writers.
///
/// ```swift
/// @State private var users = LiveModels(repository, sortedBy: { $0.name < $1.name })
/// var body: some View { List(users.models) { Text($0.name) } }
/// ```
///
/// - Without an order, ``models`` has the order of ``LocalRepository/loadAll()``: the models that
///   were saved last come last. With an order, models that are equal in it are in that order.
/// - Reading, decoding, filtering and the first sorting happen off the main actor. The next changes
///   are fetched after the last ones have been applied, a few hundred at a time, so no changes
///   queue up.
/// - Following ends with the last reference to the object. The task that waits for changes does not
///   keep the object alive.
/// - A change costs O(1) without an order when the model is new, and otherwise O(models).
@MainActor @Observable
public final class LiveModels<Model: Codable & Identifiable & Sendable> where Model.ID: Sendable {
  /// The repository of the models.
  public let repository: LocalRepository<Model>
  /// Whether ``models`` is complete.
  public private(set) var phase = LivePhase.loading
  private var list: LiveList<Model>
  /// The state of the query; nil without a query, and during its first loading.
  private var queried: QueryModels<Model>?
  @ObservationIgnored private let query: ModelQuery<Model>?
  @ObservationIgnored private let filter: (@Sendable (Model) -> Bool)?
  @ObservationIgnored private var following: Task<Void, Never>?

  /// The models after the last change that was applied; empty during the first loading. With a
  /// query, each access creates the array: use ``results``.
  public var models: [Model] { queried.map(Array.init) ?? list.models }

  /// The same models as a collection, for a list of a view. Access to it costs O(1).
  public var results: QueryModels<Model> { queried ?? QueryModels(list.models) }

  /// Starts to load the models and to follow their changes.
  ///
  /// - Parameters:
  ///   - repository: the repository of the models.
  ///   - filter: returns whether a model is shown; nil shows all models.
  ///   - order: returns whether the first model comes before the second; nil for the order of
  ///     saving.
  public init(
    _ repository: LocalRepository<Model>, where filter: (@Sendable (Model) -> Bool)? = nil,
    sortedBy order: (@Sendable (Model, Model) -> Bool)? = nil
  ) {
    self.repository = repository
    self.filter = filter
    query = nil
    list = LiveList(order: order)
    restart()
  }

  /// Starts to load the models of a query and to follow their changes: a change costs O(log n), and
  /// the models that the query excludes are not kept in memory.
  ///
  /// ```swift
  /// @State private var list = LiveModels(users.query(where: \.city, is: "Bern"))
  /// var body: some View { List(list.results) { Text($0.name) } }
  /// ```
  public init(_ query: ModelQuery<Model>) {
    repository = query.repository
    self.query = query
    filter = nil
    list = LiveList(order: nil)
    restart()
  }

  deinit { following?.cancel() }

  /// Loads all models again and follows their changes. Call this after a failure. ``models`` keeps
  /// its contents until the models are loaded.
  public func restart() {
    following?.cancel()
    phase = .loading
    if let query { return follow(query) }
    let source = LiveSource(repository, filter: filter, order: list.order)
    following = Task { [weak self] in
      while let step = await source.next(), !Task.isCancelled {
        // `self` is strong only from here to the end of the step: a task that waits must not keep
        // its owner alive.
        guard let self, take(step) else { return }
      }
    }
  }

  private func follow(_ query: ModelQuery<Model>) {
    let observer = QueryObserver(query)
    following = Task { [weak self] in
      while !Task.isCancelled {
        let step: Result<QueryUpdate<Model>?, StoreError>
        do throws(StoreError) { step = .success(try await observer.next()) } catch {
          step = .failure(error)
        }
        guard !Task.isCancelled, let self, take(step) else { return }
      }
    }
  }

  /// Applies a state of the query.
  ///
  /// - Returns: false after the last one.
  private func take(_ step: Result<QueryUpdate<Model>?, StoreError>) -> Bool {
    switch step {
    case .success(let update?):
      queried = update.models
      switch (update.failure, phase) {
      case (let error?, _): phase = .failed(error)
      case (nil, .loaded): break
      case (nil, _): phase = .loaded
      }
      return true
    case .success(nil):
      // The error of a model that is left out, if there is one, is no end.
      phase = .failed(
        StoreError(.closed, "the store was closed; open it again", file: repository.place))
      return false
    case .failure(let error):
      phase = .failed(error)
      return false
    }
  }

  /// Applies a step.
  ///
  /// - Returns: false after the last step.
  private func take(_ step: LiveStep<Model>) -> Bool {
    switch step {
    case .contents(let contents): list = contents
    case .changes(let changes): list.apply(changes)
    case .failed(let error):
      phase = .failed(error)
      return false
    }
    switch (list.unreadable, phase) {
    case (let error?, _): phase = .failed(error)
    case (nil, .loaded): break
    case (nil, _): phase = .loaded
    }
    return true
  }
}

/// The state of a ``LiveModels``.
public enum LivePhase: Sendable {
  /// The contents of the repository are being read.
  case loading
  /// The models are complete and follow every change.
  case loaded
  /// Models are missing. The error has the reason.
  ///
  /// `.decodingFailed` and `.newerFormat`: a model that cannot be read is left out. The other
  /// models are shown and follow their changes. The phase is ``loaded`` again after that model is
  /// saved again or deleted. After any other error no change is followed; ``LiveModels/restart()``
  /// loads the models again. `.cursorExpired` and `.suspended` never appear here: the models are
  /// then loaded again automatically, those of a suspended store when it is resumed.
  case failed(StoreError)
}
