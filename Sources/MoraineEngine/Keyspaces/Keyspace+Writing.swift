public import MoraineFormat

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
      await manifestGate.acquire()
      defer { manifestGate.release() }
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
