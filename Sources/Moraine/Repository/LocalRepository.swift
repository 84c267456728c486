public import MoraineEngine

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
  var preparation: Task<Result<Void, StoreError>, Never>?

  init(
    _ keyspace: Keyspace, place: String, format: ModelFormat<Model>, keys: ModelKey<Model.ID>,
    cache: CachePolicy, durability: Durability?, first: [Model] = []
  ) {
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
  private var later: Set<UInt64> = []
  private(set) var underWay = 0

  mutating func begin() { underWay += 1 }

  mutating func end(_ commit: UInt64?) {
    underWay -= 1
    guard let commit, commit > known else { return }
    later.insert(commit)
    while later.remove(known + 1) != nil { known += 1 }
  }

  mutating func restart(at count: UInt64) {
    known = count
    later = []
  }
}
