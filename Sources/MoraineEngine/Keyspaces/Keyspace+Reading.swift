extension Keyspace {
  /// The value of a key, or nil when the key is not there. As ``Store/value(forKey:)``.
  public func value(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    if store.isAlone { return try await store.ownValue(forKey: key, in: name) }
    return try await store.value(forKey: key, in: name)
  }

  /// Lends a value to the body. As ``Store/withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await store.withValue(forKey: key, in: name, body)
  }

  /// Whether a key is there. As ``Store/contains(_:)``.
  public func contains(_ key: Key) async throws(StoreError) -> Bool {
    if store.isAlone { return try await store.ownContains(key, in: name) }
    return try await store.contains(key, in: name)
  }

  /// Calls the body with every live record, in the order of the log, until it answers false. As
  /// ``Store/forEach(_:)``.
  ///
  /// - Complexity: O(bytes of the log), all keyspaces of it.
  public func forEach(_ body: sending (Entry) throws -> Bool) async throws {
    try await store.forEach(in: name, body)
  }

  /// How many keys there are, and how large their records are.
  ///
  /// - Throws: `.corrupted`, `.io` where they must be counted, `.closed`.
  /// - Complexity: O(1), but for the first time after a crash in the middle of a compaction: O(keys
  ///   of the store).
  public var statistics: KeyspaceStatistics {
    get async throws(StoreError) { try await store.statistics(of: name) }
  }

  /// How many keys there are. Throws and takes as long as ``statistics``.
  public var count: Int {
    get async throws(StoreError) { try await statistics.count }
  }
}

extension Store {
  /// What is live in each keyspace: the unnamed one, then the others by name.
  ///
  /// Throws and takes as long as ``Keyspace/statistics``.
  public var keyspaceStatistics: [KeyspaceStatistics] {
    get async throws(StoreError) {
      try await checkOpen()
      var result: [KeyspaceStatistics] = []
      for name in [""] + knownKeyspaceNames { result.append(try knownStatistics(of: name)) }
      return result
    }
  }

  /// Nil when nothing was ever written to a keyspace of the name.
  private func id(of keyspace: String) -> UInt16? { engine?.keyspaces.id(of: keyspace) }

  func value(forKey key: Key, in keyspace: String) async throws(StoreError) -> [UInt8]? {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return nil }
    return try await value(forKey: key, keyspace: id)
  }

  /// The value of a key, for a caller beside which no other process writes.
  func ownValue(forKey key: Key, in keyspace: String) throws(StoreError) -> [UInt8]? {
    try checkUsable()
    guard let id = id(of: keyspace) else { return nil }
    return try ownValue(forKey: key, keyspace: id)
  }

  func withValue<Result>(
    forKey key: Key, in keyspace: String, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return nil }
    return try await withValue(forKey: key, keyspace: id, body)
  }

  func contains(_ key: Key, in keyspace: String) async throws(StoreError) -> Bool {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return false }
    return try await contains(key, keyspace: id)
  }

  /// Whether a key is there, for a caller beside which no other process writes.
  func ownContains(_ key: Key, in keyspace: String) throws(StoreError) -> Bool {
    try checkUsable()
    guard let id = id(of: keyspace) else { return false }
    return try ownContains(key, keyspace: id)
  }

  package func forEach(
    in keyspace: String, _ body: (Entry) throws -> Bool
  ) async throws {
    try await checkOpen()
    guard let id = id(of: keyspace) else { return }
    try await forEach(in: id, body)
  }

  func statistics(of keyspace: String) async throws(StoreError) -> KeyspaceStatistics {
    try await checkOpen()
    return try knownStatistics(of: keyspace)
  }

  private func knownStatistics(of keyspace: String) throws(StoreError) -> KeyspaceStatistics {
    var result = KeyspaceStatistics(name: keyspace)
    guard let id = id(of: keyspace) else { return result }
    let figures = try engine!.figures(of: id)
    result.count = figures.count
    result.liveBytes = figures.liveBytes
    return result
  }
}
