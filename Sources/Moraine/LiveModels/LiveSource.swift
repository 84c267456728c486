import MoraineEngine

/// The next update of a ``LiveModels``.
enum LiveStep<Model: Sendable>: Sendable {
  /// All models at one moment.
  case contents(LiveList<Model>)
  case changes([LiveChange<Model>])
  /// A failure, which is the last step.
  case failed(StoreError)
}

/// The new state of one model.
struct LiveChange<Model: Sendable>: Sendable {
  enum Content: Sendable {
    case model(Model)
    /// The model was deleted, or the filter excludes it.
    case nothing
    case unreadable(StoreError)
  }

  let key: Key
  let sequence: UInt64
  let content: Content
}

/// Reads, decodes and filters models for one ``LiveModels`` on request, off the main actor.
actor LiveSource<Model: Codable & Identifiable & Sendable> where Model.ID: Sendable {
  private let repository: LocalRepository<Model>
  private let filter: (@Sendable (Model) -> Bool)?
  private let order: (@Sendable (Model, Model) -> Bool)?
  /// The changes after the contents; nil before the contents are read.
  private var feed: KeyspaceFeed?

  init(
    _ repository: LocalRepository<Model>, filter: (@Sendable (Model) -> Bool)?,
    order: (@Sendable (Model, Model) -> Bool)?
  ) {
    self.repository = repository
    self.filter = filter
    self.order = order
  }

  /// Waits for the next step; nil when the task is cancelled.
  func next() async -> LiveStep<Model>? {
    while !Task.isCancelled {
      do throws(StoreError) {
        guard let feed else { return .contents(try await load()) }
        let changes = try await feed.next()
        if !changes.isEmpty { return .changes(changes.map(change)) }
        if Task.isCancelled { return nil }
        return .failed(
          StoreError(.closed, "the store was closed; open it again", file: repository.place))
      } catch {
        feed = nil
        switch error.code {
        // Compaction has dropped deletes that the feed has not read yet, so the contents are read
        // again.
        case .cursorExpired: break
        // In a store that was closed by then, the next attempt fails.
        case .suspended: _ = await repository.keyspace.store.waitWhileSuspended()
        default: return .failed(error)
        }
      }
    }
    return nil
  }

  private func load() async throws(StoreError) -> LiveList<Model> {
    try await repository.prepareToRead()
    let contents = try await repository.keyspace.contents()
    var list = LiveList(order: order)
    list.load(contents.entries.map { content($0.key, $0.value, $0.sequence.rawValue) })
    feed = contents.feed
    return list
  }

  private func change(_ change: Store.Change) -> LiveChange<Model> {
    content(change.key, change.value, change.sequence.rawValue)
  }

  private func content(_ key: Key, _ bytes: [UInt8]?, _ sequence: UInt64) -> LiveChange<Model> {
    var content = LiveChange<Model>.Content.nothing
    if let bytes {
      do throws(StoreError) {
        let model = try repository.format.decode(bytes, key, repository.place)
        if filter?(model) ?? true { content = .model(model) }
      } catch {
        content = .unreadable(error)
      }
    }
    return LiveChange(key: key, sequence: sequence, content: content)
  }
}
