public import MoraineEngine

extension LocalRepository {
  /// The model with an id, or nil when there is none.
  ///
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; `.corrupted`, `.io`, `.closed`,
  ///   `.suspended`, the last two also for a model in memory.
  /// - Complexity: O(1) for a model in memory, otherwise O(model).
  @inlinable
  public func find(by id: Model.ID) async throws(StoreError) -> Model? {
    // Compiled into the caller: it knows the types, which makes looking up much faster.
    if isCacheCurrent, let known = cache.young[id] { return known.model }
    return try await read(id)
  }

  /// Whether what is in memory is what the store holds, as far as can be told at once.
  @usableFromInline
  var isCacheCurrent: Bool {
    first.isEmpty && monitor.commitCount == localCommits.known && !monitor.hasNewsOfOthers
  }

  @usableFromInline
  func read(_ id: Model.ID) async throws(StoreError) -> Model? {
    try await prepare()
    if monitor.hasNewsOfOthers { try await keyspace.store.applyPeerWrites() }
    if mayTrustCache(), let known = cache.entry(id) { return known.model }
    let key = keys.key(id)
    guard let found = try await keyspace.versionedValue(forKey: key) else {
      throw StoreError(.closed, "the store was closed; open it again", file: place)
    }
    guard let bytes = found.value, let sequence = found.sequence else { return nil }
    let model = try format.decode(bytes, key, place)
    // Unless somebody has changed something since it was read.
    if mayTrustCache(), monitor.commitCount == found.commitCount {
      cache.insert(
        ModelCache.Entry(model: model, sequence: sequence.rawValue, costBytes: bytes.count),
        for: id)
    }
    return model
  }

  /// All models, as they are at one moment; those saved last come last.
  ///
  /// - Throws: as ``find(by:)``, at the first that cannot be read.
  /// - Complexity: O(bytes of the store's log).
  public func loadAll() async throws(StoreError) -> [Model] {
    try await prepare()
    return try await decoded(try await keyspace.entries())
  }

  /// How many models there are.
  ///
  /// - Throws: as ``/MoraineEngine/Keyspace/statistics``.
  public var count: Int {
    get async throws(StoreError) {
      try await prepare()
      return try await keyspace.count
    }
  }

  /// Forgets all models in memory if somebody else has changed one.
  ///
  /// - Returns: whether what is in memory is what the store holds. While a save of this repository
  ///   is under way, nobody can tell whose commit was the last.
  private func mayTrustCache() -> Bool {
    if cache.isOff { return false }
    let count = monitor.commitCount
    guard ChangeMonitor.isUsable(count) else { return false }
    if count == localCommits.known { return true }
    if localCommits.underWay > 0 { return false }
    cache.removeAll()
    localCommits.restart(at: count)
    return true
  }
}
