public import MoraineFormat

extension Store {
  /// Returns the value of a key with its sequence number, or nil when the key does not exist. See
  /// ``value(forKey:)``.
  public func versionedValue(forKey key: Key) async throws(StoreError) -> VersionedValue? {
    try await versionedValue(forKey: key, in: "")
  }

  /// Stores a value if a condition on the key's present value holds. No other writer, of any
  /// process, writes between the look at the present value and this write.
  ///
  /// - Parameters:
  ///   - condition: what must be true of the present value. A value that has expired is absent.
  ///   - expiry: the time at which the new entry ends.
  ///   - durability: what to wait for after the write; nil for the configuration's durability.
  /// - Returns: the operation's sequence number; nil when the condition does not hold, and nothing
  ///   was written.
  /// - Throws: the errors of ``set(_:forKey:durability:)`` and of ``value(forKey:)``.
  /// - Complexity: O(key + value), one hop to the actor.
  public func set(
    _ value: [UInt8], forKey key: Key, if condition: WriteCondition,
    expiring expiry: Expiry = .never,
    durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await writeUnit(durability) { (batch) throws(StoreError) in
      _ = try batch.set(value, forKey: key, if: condition, expiring: expiry)
    }
  }

  /// Removes a key if a condition on its present value holds. See
  /// ``set(_:forKey:if:expiring:durability:)``.
  ///
  /// - Returns: the operation's sequence number; nil when the condition does not hold or the key
  ///   does not exist, and nothing was written.
  public func removeValue(
    forKey key: Key, if condition: WriteCondition, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await writeUnit(durability) { (batch) throws(StoreError) in
      _ = try batch.removeValue(forKey: key, if: condition)
    }
  }

  /// Replaces the value of a key by one that follows from it, in one hop. No other writer, of any
  /// process, writes between the read and the write.
  ///
  /// ```swift
  /// try await store.update("visits") { old in [(old?.first ?? 0) &+ 1] }
  /// ```
  ///
  /// - Parameter body: receives the present value, or nil when the key does not exist, and returns
  ///   the new value, or nil to remove the key. When it throws, nothing is written. When it returns
  ///   what it received, nothing is written either.
  /// - Returns: the value that the body has returned.
  /// - Throws: the errors of the body, and those of ``set(_:forKey:durability:)`` and
  ///   ``value(forKey:)``.
  @discardableResult
  public func update(
    _ key: Key, durability: Durability? = nil, _ body: sending ([UInt8]?) throws -> [UInt8]?
  ) async throws -> [UInt8]? {
    try await update(key, in: Keyspace(store: self, name: ""), durability, body)
  }

  func update(
    _ key: Key, in keyspace: Keyspace, _ durability: Durability?,
    _ body: sending ([UInt8]?) throws -> [UInt8]?
  ) async throws -> [UInt8]? {
    try await beginForCondition()
    return try await write(durability: durability) { batch in
      let old = try batch.value(forKey: key, in: keyspace)
      let new = try body(old)
      if let new, new != old {
        try batch.set(new, forKey: key, in: keyspace)
      } else if new == nil, old != nil {
        try batch.removeValue(forKey: key, in: keyspace)
      }
      return new
    }
  }

  /// Commits what the body puts into a batch, and waits for its durability.
  ///
  /// - Returns: the sequence number of the last operation; nil when the batch is empty.
  func writeUnit(
    _ durability: Durability?, _ body: (inout WriteBatch) throws(StoreError) -> Void
  ) async throws(StoreError) -> SequenceNumber? {
    try await beginForCondition()
    let hasGate = try await beginUnit()
    let sequence: SequenceNumber?
    do {
      defer { endUnit(hasGate) }
      var batch = WriteBatch(store: self, hasIndexes: hasIndexes)
      try body(&batch)
      sequence = try await commit(batch.take(), hasGate: hasGate)
    }
    // Nothing was written, so there is nothing to wait for.
    guard let sequence else { return nil }
    try await waitForDurability(of: sequence, durability)
    return sequence
  }

  /// Opens the store for good before a condition is looked at: another process may have created the
  /// store since this one looked for it.
  func beginForCondition() async throws(StoreError) {
    guard engine == nil, !isShared, !opener.configuration.isReadOnly else { return }
    try await passGate()
    guard engine == nil else { return }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    try await beginStore()
  }

  func versionedValue(
    forKey key: Key, in keyspace: String
  ) async throws(StoreError) -> VersionedValue? {
    try await checkOpen()
    guard let id = engine?.keyspaces.id(of: keyspace) else { return nil }
    return try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.versionedValue(bytes, keyspace: id)
      }
    } ?? nil
  }

  /// Returns the value of a key with its sequence number, for a caller beside which no other
  /// process writes.
  func ownVersionedValue(
    forKey key: Key, in keyspace: String
  ) throws(StoreError) -> VersionedValue? {
    try checkUsable()
    guard engine != nil, let id = engine!.keyspaces.id(of: keyspace) else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try engine!.versionedValue(bytes, keyspace: id)
    }
  }
}

extension Keyspace {
  /// Returns the value of a key with its sequence number. See ``Store/versionedValue(forKey:)``.
  public func versionedValue(forKey key: Key) async throws(StoreError) -> VersionedValue? {
    try await store.versionedValue(forKey: key, in: name)
  }

  /// Stores a value if a condition holds. See ``Store/set(_:forKey:if:expiring:durability:)``.
  public func set(
    _ value: [UInt8], forKey key: Key, if condition: WriteCondition, expiring expiry: Expiry? = nil,
    durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await store.writeUnit(durability) { (batch) throws(StoreError) in
      _ = try batch.set(value, forKey: key, in: self, if: condition, expiring: expiry)
    }
  }

  /// Removes a key if a condition holds. See ``Store/removeValue(forKey:if:durability:)``.
  public func removeValue(
    forKey key: Key, if condition: WriteCondition, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await store.writeUnit(durability) { (batch) throws(StoreError) in
      _ = try batch.removeValue(forKey: key, in: self, if: condition)
    }
  }

  /// Replaces the value of a key by one that follows from it. See
  /// ``Store/update(_:durability:_:)``.
  @discardableResult
  public func update(
    _ key: Key, durability: Durability? = nil, _ body: sending ([UInt8]?) throws -> [UInt8]?
  ) async throws -> [UInt8]? {
    try await store.update(key, in: self, durability, body)
  }
}
