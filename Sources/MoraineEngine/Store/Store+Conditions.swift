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
  ///   - value: the new value.
  ///   - key: the key.
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
  /// - Parameters:
  ///   - key: the key.
  ///   - durability: what to wait for after the write; nil for the configuration's durability.
  ///   - body: receives the present value, or nil when the key does not exist, and returns the new
  ///     value, or nil to remove the key. When it throws, nothing is written. When it returns what
  ///     it received, nothing is written either.
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
    if let number = numberForUpdate(of: keyspace) {
      let old = try ownValue(forKey: key, keyspace: number)
      let new = try body(old)
      let sequence = areEqual(old, new) ? nil : try await replaceValue(of: key, in: number, by: new)
      try await waitForDurability(of: sequence, durability)
      return new
    }
    return try await write(durability: durability) { batch in
      let old = try batch.value(forKey: key, in: keyspace)
      let new = try body(old)
      if let new, !areEqual(old, new) {
        try batch.set(new, forKey: key, in: keyspace)
      } else if new == nil, old != nil {
        try batch.removeValue(forKey: key, in: keyspace)
      }
      return new
    }
  }

  /// Returns the number of a keyspace that an update can read and write without a batch and without
  /// waiting for other writers; nil where it cannot.
  private func numberForUpdate(of keyspace: Keyspace) -> UInt16? {
    guard !writing.roomGate.isHeld, lifecycle.isUsable, !isShared, engine != nil,
      keyspace.defaultExpiry == .never, let number = engine!.id(fulfilling: keyspace.request)
    else { return nil }
    return engine!.keyspaces.isIndexed(number) ? nil : number
  }

  /// Puts a value, or deletes the key when the value is nil. The caller has just read the key, and
  /// no writer holds the gate. No other writer comes between the read and this write: the function
  /// suspends only after it has taken the gate.
  private func replaceValue(
    of key: Key, in keyspace: UInt16, by value: [UInt8]?
  ) async throws(StoreError) -> SequenceNumber? {
    guard let value else {
      let sequence = try await withRoom(isDelete: true) { (engine) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in
          try engine.delete(bytes, keyspace: keyspace)
        }
      }
      compactAfterDeleting()
      return sequence
    }
    if let sequence = try putAtOnce(key, value, keyspace) { return sequence }
    let prepared = PreparedValue()
    return try await withRoom { (engine) throws(StoreError) in
      try engine.put(key, value, keyspace: keyspace, prepared)
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
    guard let id = id(of: keyspace) else { return nil }
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
    guard let id = id(of: keyspace) else { return nil }
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

/// Compares values as bytes in memory; `==` compares element by element.
private func areEqual(_ one: [UInt8]?, _ other: [UInt8]?) -> Bool {
  guard let one, let other else { return one == nil && other == nil }
  guard one.count == other.count else { return false }
  return one.withUnsafeBytes { one in other.withUnsafeBytes { one.elementsEqualFast($0) } }
}
