public import MoraineEngine

extension LocalRepository {
  /// Returns the model with an id, or nil when there is none.
  ///
  /// - Throws: `.decodingFailed`, `.newerFormat`, both with the id; `.corrupted`, `.io`, `.closed`,
  ///   `.suspended`. The last two are also thrown for a model that is in memory.
  /// - Complexity: O(1) for a model in memory, otherwise O(model).
  @inlinable
  public func find(by id: Model.ID) async throws(StoreError) -> Model? {
    // Inlined into the caller, which knows the types: that makes the look-up much faster.
    if isCacheCurrent, let known = cache.young[id] { return known.model }
    return try await read(id)
  }

  /// Whether the cache surely agrees with the store. This check calls neither the store nor the
  /// disk; false may also mean that it cannot tell.
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
    // Not if another commit has changed the keyspace since the model was read.
    if mayTrustCache(), monitor.commitCount == found.commitCount {
      cache.insert(
        ModelCache.Entry(model: model, sequence: sequence.rawValue, costBytes: bytes.count),
        for: id)
    }
    return model
  }

  /// Returns all models at one moment, in the order in which they were last saved.
  ///
  /// - Throws: the errors of ``find(by:)``, for the first model that cannot be read.
  /// - Complexity: O(bytes of the store's log).
  public func loadAll() async throws(StoreError) -> [Model] {
    try await prepare()
    return try await decoded(try await keyspace.entries())
  }

  /// Returns the number of models.
  ///
  /// - Throws: the errors of ``/MoraineEngine/Keyspace/statistics()``.
  public func count() async throws(StoreError) -> Int {
    try await prepare()
    return try await keyspace.count()
  }

  /// Empties the cache if a commit that is not this repository's has changed the keyspace.
  ///
  /// - Returns: whether the cache agrees with the store. While a save of this repository is under
  ///   way, the repository cannot tell whether the last commit is its own, and returns false.
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
