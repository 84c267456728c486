public import MoraineFormat

/// A named part of a store with keys of its own.
///
/// All keyspaces of a store share its log and its syncs, and a batch may span them. One comes into
/// being with the first write to it, which waits for the disk once; until then it is empty.
///
/// ```swift
/// let users = try store.keyspace(named: "users")
/// try await users.set(bytes, forKey: "ada")
/// ```
public struct Keyspace: Sendable {
  /// The store that it is a part of.
  public let store: Store
  /// Empty for the one that ``Store``'s own methods are about.
  public let name: String

  /// The longest name, in bytes of UTF-8.
  public static let nameLengthBytes = 255
  /// How many names a store can have.
  public static let limit = 0xFEFF
}

extension Store {
  /// A part of this store. Touches nothing.
  ///
  /// - Parameter name: up to 255 bytes of UTF-8, compared as Swift compares text; empty for the
  ///   keyspace that the store's own methods are about.
  /// - Throws: `.keyTooLarge` when the name is longer.
  public nonisolated func keyspace(named name: String) throws(StoreError) -> Keyspace {
    guard name.utf8.count <= Keyspace.nameLengthBytes else {
      throw StoreError(
        .keyTooLarge,
        "a keyspace name of \(name.utf8.count) bytes; the limit is \(Keyspace.nameLengthBytes)")
    }
    return Keyspace(store: self, name: name)
  }

  /// The names of the keyspaces that were ever written to, but for the unnamed one; sorted. None
  /// when the store is closed or suspended.
  public var keyspaceNames: [String] {
    get async {
      await tryToCatchUp()
      return knownKeyspaceNames
    }
  }

  var knownKeyspaceNames: [String] {
    engine?.manifest.keyspaces.map(\.name).sorted() ?? []
  }
}

extension Keyspace: Hashable {
  public static func == (left: Keyspace, right: Keyspace) -> Bool {
    left.store === right.store && left.name == right.name
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(store))
    hasher.combine(name)
  }
}

/// What is live in a keyspace at one moment.
public struct KeyspaceStatistics: Hashable, Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public internal(set) var name: String
  /// Live keys.
  public internal(set) var count = 0
  /// Bytes of their records in the log.
  public internal(set) var liveBytes: UInt64 = 0
}

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

extension Keyspace {
  /// Stores a value under a key, replacing what was there. As ``Store/set(_:forKey:durability:)``.
  ///
  /// - Throws: also `.valueTooLarge` when the store has ``limit`` keyspaces already.
  @discardableResult
  public func set(
    _ value: [UInt8], forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await store.set(value, forKey: key, in: name, durability: durability)
  }

  /// Removes a key and its value. As ``Store/removeValue(forKey:durability:)``.
  @discardableResult
  public func removeValue(
    forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await store.removeValue(forKey: key, in: name, durability: durability)
  }
}

extension Store {
  func set(
    _ value: [UInt8], forKey key: Key, in keyspace: String, durability: Durability?
  ) async throws(StoreError) -> SequenceNumber {
    if keyspace.isEmpty { return try await set(value, forKey: key, durability: durability) }
    let sequence: SequenceNumber
    if let id = engine?.keyspaces.id(of: keyspace), let done = try putAtOnce(key, value, id) {
      sequence = done
    } else {
      try await passGate()
      let prepared = PreparedValue()
      sequence = try await withRoom(mayWait: true, creating: [keyspace]) {
        (engine) throws(StoreError) in
        guard let id = engine.keyspaces.id(of: keyspace) else {
          fatalError("a write came before its keyspace")
        }
        return try engine.put(key, value, keyspace: id, prepared)
      }
    }
    if needsWait(durability) { try await pipeline.waitUntilDurable(sequence.rawValue) }
    return sequence
  }

  func removeValue(
    forKey key: Key, in keyspace: String, durability: Durability?
  ) async throws(StoreError) -> SequenceNumber? {
    // Another process may have made the keyspace.
    if isShared { try await checkOpen() }
    try await passGateToDelete()
    guard engine != nil, let id = engine!.keyspaces.id(of: keyspace) else { return nil }
    return try await removeValue(forKey: key, keyspace: id, durability: durability)
  }

  /// Lists keyspaces in the manifest: before the first record of one may become durable, its name
  /// is. The caller has the gate.
  ///
  /// - Throws: `.valueTooLarge` when there are too many, and as any write.
  func createKeyspaces(_ names: [String]) async throws(StoreError) {
    for name in names where engine!.keyspaces.id(of: name) == nil {
      try engine!.checkWritable()
      await writing.manifestGate.acquire()
      defer { writing.manifestGate.release() }
      let keyspace = try engine!.list(keyspace: name)
      do throws(StoreError) {
        try await publishManifest()
      } catch {
        engine!.manifest.keyspaces.removeLast()
        throw error
      }
      engine!.keyspaces.add(keyspace)
    }
  }
}

extension EngineState {
  fileprivate mutating func list(keyspace name: String) throws(StoreError) -> Manifest.Keyspace {
    let last = manifest.keyspaces.map(\.id).filter { $0 < KeyspaceTable.firstSystemID }.max() ?? 0
    guard last < Keyspace.limit else {
      throw StoreError(.valueTooLarge, "a store has at most \(Keyspace.limit) keyspaces")
    }
    let keyspace = Manifest.Keyspace(id: last + 1, index: 0, name: name)
    manifest.keyspaces.append(keyspace)
    return keyspace
  }
}
