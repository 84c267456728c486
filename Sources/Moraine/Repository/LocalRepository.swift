public import MoraineEngine

/// Models of one type, saved one by one: the four verbs of the pattern that everybody copies, over
/// a log instead of one file that is written anew each time.
///
/// ```swift
/// let users = try LocalRepository<User>(filename: "users")
/// try await users.save(User(id: 7, name: "Ada"))
/// let ada = try await users.find(by: 7)
/// ```
///
/// Several repositories may be alive for the same place, in one process, and agree at once. Memory
/// changes only after the append has succeeded, and reads throw: damage is never taken for absence.
public actor LocalRepository<Model: Codable & Identifiable & Sendable>
where Model.ID: Sendable {
  /// The keyspace that holds the models: a key is the text of an id, a value an encoded model.
  public nonisolated let keyspace: Keyspace
  nonisolated let format: ModelFormat<Model>
  nonisolated let keys: ModelKey<Model.ID>
  nonisolated let durability: Durability?
  /// Where the models are, for messages.
  nonisolated let place: String
  let monitor: ChangeMonitor
  @usableFromInline var cache: ModelCache<Model.ID, Model>
  var localCommits = LocalCommits()
  /// What it begins with, until that is saved.
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

/// Which commits to a keyspace were a repository's own: what others change, it must not have in
/// memory.
struct LocalCommits {
  /// Up to here all commits are known.
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
