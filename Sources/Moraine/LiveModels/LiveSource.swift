import MoraineEngine

/// What a ``LiveModels`` is to take over next.
enum LiveStep<Model: Sendable>: Sendable {
  /// All of them, at one moment.
  case contents(LiveList<Model>)
  case changes([LiveChange<Model>])
  /// The last step.
  case failed(StoreError)
}

/// What became of one model.
struct LiveChange<Model: Sendable>: Sendable {
  enum Content: Sendable {
    case model(Model)
    /// Deleted, or not wanted by the filter.
    case nothing
    case unreadable(StoreError)
  }

  let key: Key
  let sequence: UInt64
  let content: Content
}

/// Reads, decodes and filters for one ``LiveModels``, off the main actor, when it asks.
actor LiveSource<Model: Codable & Identifiable & Sendable> where Model.ID: Sendable {
  private let repository: LocalRepository<Model>
  private let filter: (@Sendable (Model) -> Bool)?
  private let order: (@Sendable (Model, Model) -> Bool)?
  /// Nil before the contents were read.
  private var feed: KeyspaceFeed?

  init(
    _ repository: LocalRepository<Model>, filter: (@Sendable (Model) -> Bool)?,
    order: (@Sendable (Model, Model) -> Bool)?
  ) {
    self.repository = repository
    self.filter = filter
    self.order = order
  }

  /// Waits for something to take over; nil when the task is cancelled.
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
        // It was away for too long, and deletes that it has not seen are gone from the log.
        if error.code != .cursorExpired { return .failed(error) }
      }
    }
    return nil
  }

  private func load() async throws(StoreError) -> LiveList<Model> {
    try await repository.prepare()
    let contents = try await repository.keyspace.contents()
    var list = LiveList(order: order)
    list.load(contents.entries.map { content($0.key, $0.value, $0.sequence.rawValue) })
    feed = contents.feed
    return list
  }

  private func change(_ change: Change) -> LiveChange<Model> {
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
