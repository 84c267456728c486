public import MoraineFormat

/// A named part of a store with its own keys.
///
/// All keyspaces of a store share its log and its syncs, and a batch may span them. The first write
/// to a keyspace creates it, and waits for the disk once; until then the keyspace is empty.
///
/// ```swift
/// let users = try store.keyspace(named: "users")
/// try await users.set(bytes, forKey: "ada")
/// ```
public struct Keyspace: Sendable {
  /// The store that contains the keyspace.
  public let store: Store
  /// The keyspace's name; empty for the keyspace that ``Store``'s own methods use.
  public let name: String

  /// The length of the longest name, in bytes of UTF-8.
  public static let nameLengthBytes = 255
  /// The largest number of names in a store.
  public static let limit = 0xFEFF
}

extension Store {
  /// Returns a keyspace of this store. Reads and writes nothing.
  ///
  /// - Parameter name: up to 255 bytes of UTF-8, compared as Swift compares text; empty for the
  ///   keyspace that the store's own methods use.
  /// - Throws: `.keyTooLarge` when the name is longer.
  public nonisolated func keyspace(named name: String) throws(StoreError) -> Keyspace {
    guard name.utf8.count <= Keyspace.nameLengthBytes else {
      throw StoreError(
        .keyTooLarge,
        "the keyspace name has \(name.utf8.count) bytes; the limit is \(Keyspace.nameLengthBytes)")
    }
    return Keyspace(store: self, name: name)
  }

  /// Returns the sorted names of the keyspaces that were ever written to, except the unnamed one.
  ///
  /// - Throws: as ``count()``.
  /// - Complexity: O(keyspaces).
  public func keyspaceNames() async throws(StoreError) -> [String] {
    try await checkOpen()
    return knownKeyspaceNames
  }

  var knownKeyspaceNames: [String] {
    engine?.log.manifest.keyspaces.map(\.name).sorted() ?? []
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

/// The live figures of a keyspace at one moment.
public struct KeyspaceStatistics: Hashable, Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public internal(set) var name: String
  /// Number of live keys.
  public internal(set) var count = 0
  /// Bytes of the live keys' records in the log.
  public internal(set) var liveBytes: UInt64 = 0
}

extension Keyspace {
  /// Returns the value of a key, or nil when the key does not exist. See ``Store/value(forKey:)``.
  public func value(forKey key: Key) async throws(StoreError) -> [UInt8]? {
    if store.isAlone { return try await store.ownValue(forKey: key, in: name) }
    return try await store.value(forKey: key, in: name)
  }

  /// Calls the body with the value of a key. See ``Store/withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws -> Result
  ) async throws -> sending Result? {
    try await store.withValue(forKey: key, in: name, body)
  }

  /// Returns whether a key exists. See ``Store/contains(_:)``.
  public func contains(_ key: Key) async throws(StoreError) -> Bool {
    if store.isAlone { return try await store.ownContains(key, in: name) }
    return try await store.contains(key, in: name)
  }

  /// Calls the body with every live record, in the order of the log, until the body returns false.
  /// See ``Store/scan(_:)``.
  ///
  /// - Complexity: O(bytes of the log), including those of the other keyspaces.
  public func scan(_ body: sending (Store.Entry) throws -> Bool) async throws {
    try await store.scan(in: name, body)
  }

  /// Returns the number of keys, and the size of their records.
  ///
  /// - Throws: `.corrupted`, `.io` where the records must be counted, `.closed`.
  /// - Complexity: O(1), except the first time after a crash in the middle of a compaction: O(keys
  ///   of the store).
  public func statistics() async throws(StoreError) -> KeyspaceStatistics {
    try await store.statistics(of: name)
  }

  /// Returns the number of keys. Throws the errors of ``statistics()``, and takes as long.
  public func count() async throws(StoreError) -> Int { try await statistics().count }
}

extension Keyspace {
  /// Stores a value under a key, and replaces the value that the key had. See
  /// ``Store/set(_:forKey:durability:)``.
  ///
  /// - Throws: also `.limitExceeded` when the store has ``limit`` keyspaces already.
  @discardableResult
  public func set(
    _ value: [UInt8], forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await store.set(value, forKey: key, in: name, durability: durability)
  }

  /// Removes a key and its value. See ``Store/removeValue(forKey:durability:)``.
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
          fatalError("a write uses a keyspace that was not created")
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
    // Another process may have created the keyspace.
    if isShared { try await checkOpen() }
    try await passGateToDelete()
    guard engine != nil, let id = engine!.keyspaces.id(of: keyspace) else { return nil }
    return try await removeValue(forKey: key, keyspace: id, durability: durability)
  }

  /// Lists keyspaces in the manifest: a keyspace's name must be durable before its first record may
  /// become durable. The caller holds the gate.
  ///
  /// - Throws: `.limitExceeded` when there are too many keyspaces, and the errors of any write.
  func createKeyspaces(_ names: [String]) async throws(StoreError) {
    for name in names where engine!.keyspaces.id(of: name) == nil {
      try engine!.checkWritable()
      await writing.manifestGate.acquire()
      defer { writing.manifestGate.release() }
      let keyspace = try engine!.list(keyspace: name)
      do throws(StoreError) {
        try await publishManifest()
      } catch {
        engine!.log.manifest.keyspaces.removeLast()
        throw error
      }
      engine!.keyspaces.add(keyspace)
    }
  }
}

extension EngineState {
  fileprivate mutating func list(keyspace name: String) throws(StoreError) -> Manifest.Keyspace {
    let last =
      log.manifest.keyspaces.map(\.id).filter { $0 < KeyspaceTable.firstSystemID }.max() ?? 0
    guard last < Keyspace.limit else {
      throw StoreError(.limitExceeded, "a store has at most \(Keyspace.limit) keyspaces")
    }
    let keyspace = Manifest.Keyspace(id: last + 1, index: 0, name: name)
    log.manifest.keyspaces.append(keyspace)
    return keyspace
  }
}
