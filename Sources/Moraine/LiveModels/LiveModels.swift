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
  @ObservationIgnored private let filter: (@Sendable (Model) -> Bool)?
  @ObservationIgnored private var following: Task<Void, Never>?

  /// The models after the last change that was applied; empty during the first loading.
  public var models: [Model] { list.models }

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
    list = LiveList(order: order)
    restart()
  }

  deinit { following?.cancel() }

  /// Loads all models again and follows their changes. Call this after a failure. ``models`` keeps
  /// its contents until the models are loaded.
  public func restart() {
    following?.cancel()
    phase = .loading
    let source = LiveSource(repository, filter: filter, order: list.order)
    following = Task { [weak self] in
      while let step = await source.next(), !Task.isCancelled {
        // `self` is strong only from here to the end of the step: a task that waits must not keep
        // its owner alive.
        guard let self, take(step) else { return }
      }
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
  /// loads the models again. `.cursorExpired` never appears here: the models are then loaded again
  /// automatically.
  case failed(StoreError)
}
