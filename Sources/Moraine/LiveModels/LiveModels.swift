public import MoraineEngine
public import Observation

/// The models of a repository for a view: observable, and in step with whoever changes them.
///
/// ```swift
/// @State private var users = LiveModels(repository, sortedBy: { $0.name < $1.name })
/// var body: some View { List(users.models) { Text($0.name) } }
/// ```
///
/// - Without an order, ``models`` is what ``LocalRepository/loadAll()`` gives: those saved last
///   come last. With one, those that are equal in it are in that order.
/// - Reading, decoding, filtering and the first sorting happen off the main actor. Changes are
///   fetched when the last ones have been taken over, a few hundred at a time, so nothing piles up.
/// - It ends with its last reference, and keeps nothing alive that nobody else uses.
/// - A change costs O(1) without an order when the model is new, and otherwise O(models).
@MainActor @Observable
public final class LiveModels<Model: Codable & Identifiable & Sendable> where Model.ID: Sendable {
  /// Where the models are.
  public let repository: LocalRepository<Model>
  /// Whether ``models`` is all that there is.
  public private(set) var phase = LivePhase.loading
  private var list: LiveList<Model>
  @ObservationIgnored private let filter: (@Sendable (Model) -> Bool)?
  @ObservationIgnored private var following: Task<Void, Never>?

  /// The models, as they were when the last change was taken over; empty while they are first
  /// loaded.
  public var models: [Model] { list.models }

  /// Begins to load, and to follow.
  ///
  /// - Parameters:
  ///   - repository: where the models are.
  ///   - filter: nil for all models.
  ///   - order: whether the first comes before the second; nil for the order of saving.
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

  /// Loads everything anew, and follows it from there; for one that has failed. What is in
  /// ``models`` stays there until then.
  public func restart() {
    following?.cancel()
    phase = .loading
    let source = LiveSource(repository, filter: filter, order: list.order)
    following = Task { [weak self] in
      while let step = await source.next(), !Task.isCancelled {
        // Only from here to the end of the step: what waits must not keep its owner alive.
        guard let self, take(step) else { return }
      }
    }
  }

  /// - Returns: whether there can be more.
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

/// How far a ``LiveModels`` has come.
public enum LivePhase: Sendable {
  /// What the repository holds is being read.
  case loading
  /// The models are all that there are, and follow every change.
  case loaded
  /// Something is missing in the models, and the error says what.
  ///
  /// After `.decodingFailed` and `.newerFormat` a model that cannot be read is left out; the others
  /// are there and go on following, and it is ``loaded`` again when that model is saved anew or
  /// deleted. After anything else nothing follows: ``LiveModels/restart()`` begins anew.
  /// `.cursorExpired` does not come here: it begins anew by itself.
  case failed(StoreError)
}
