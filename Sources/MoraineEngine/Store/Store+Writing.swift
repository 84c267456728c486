public import MoraineFormat
import MoraineStorage

extension Store {
  /// Stores a value under a key, replacing what was there.
  ///
  /// - Parameters:
  ///   - value: any bytes, up to `Limits.valueLengthBytes`.
  ///   - key: any bytes, up to `Limits.keyLengthBytes`.
  ///   - durability: what to wait for; nil takes the configuration's.
  /// - Returns: the operation's sequence number.
  /// - Throws: `.keyTooLarge`, `.valueTooLarge`, `.noSpace`, `.io`, `.poisoned`, `.corrupted` (the
  ///   value being replaced), `.readOnly`, `.closed`, `.usedAfterFork`. After `.poisoned` or `.io`
  ///   while syncing it is open whether the write is there after reopening.
  /// - Complexity: O(key + value).
  @discardableResult
  public func set(
    _ value: [UInt8], forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    let sequence: SequenceNumber
    if let done = try putAtOnce(key, value, 0) {
      sequence = done
    } else {
      sequence = try await putWhenThereIsRoom(key, value)
    }
    if needsWait(durability) { try await pipeline.waitUntilDurable(sequence.rawValue) }
    return sequence
  }

  /// Nil when it takes more than that.
  @inline(__always)
  func putAtOnce(
    _ key: Key, _ value: [UInt8], _ keyspace: UInt16
  ) throws(StoreError) -> SequenceNumber? {
    guard !writing.roomGate.isHeld, !isClosed, engine != nil, !isShared else { return nil }
    do throws(StoreError) {
      if case .done(let done) = try engine!.put(key, value, keyspace: keyspace) {
        wakeForChange()
        return done
      }
    } catch {
      // Without a mapping it is the write that finds the disk full.
      guard error.code == .noSpace else { throw error }
    }
    return nil
  }

  private func putWhenThereIsRoom(
    _ key: Key, _ value: [UInt8]
  ) async throws(StoreError) -> SequenceNumber {
    try await passGate()
    let prepared = PreparedValue()
    return try await withRoom(mayWait: true) { (engine) throws(StoreError) in
      try engine.put(key, value, prepared)
    }
  }

  /// Removes a key and its value.
  ///
  /// A key that is not there leaves nothing to write; with ``Durability/sync`` its absence is
  /// durable when this returns.
  ///
  /// - Returns: the operation's sequence number, or nil when the key was not there.
  /// - Throws: as ``set(_:forKey:durability:)``.
  @discardableResult
  public func removeValue(
    forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await passGateToDelete()
    if engine == nil { return nil }
    return try await removeValue(forKey: key, keyspace: 0, durability: durability)
  }

  @inline(__always)
  func passGateToDelete() async throws(StoreError) {
    if writing.roomGate.isHeld || isClosed || engine == nil || isShared { try await passGate() }
  }

  func removeValue(
    forKey key: Key, keyspace: UInt16, durability: Durability?
  ) async throws(StoreError) -> SequenceNumber? {
    let sequence = try await withRoom(isDelete: true, mayWait: true) {
      (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.delete(bytes, keyspace: keyspace)
      }
    }
    compactAfterDeleting()
    if needsWait(durability) { try await waitUntilDurable(sequence) }
    return sequence
  }

  /// Runs the body on a batch and applies all of it at once, or, when the body throws, nothing.
  ///
  /// The batch reads its own writes. No other writer comes between.
  ///
  /// - Throws: what the body throws, and as ``set(_:forKey:durability:)``.
  @discardableResult
  public func write<Result>(
    durability: Durability? = nil, _ body: sending (inout WriteBatch) throws -> Result
  ) async throws -> sending Result {
    let hasGate = try await beginUnit()
    let result: Result
    let sequence: SequenceNumber?
    do {
      defer { endUnit(hasGate) }
      var batch = WriteBatch(store: self)
      result = try body(&batch)
      sequence = try await commit(batch.take(), hasGate: hasGate)
    }
    try await waitForDurability(of: sequence, durability)
    return result
  }

  /// - Parameter hasGate: what ``beginUnit()`` returned.
  /// - Returns: the last operation's number; nil when there was nothing to do.
  func commit(_ batch: BatchCommit, hasGate: Bool) async throws(StoreError) -> SequenceNumber? {
    if batch.isEmpty { return nil }
    let isDelete = batch.areDeletes
    let prepared = batch.isOneLargeValue ? PreparedValue() : nil
    let sequence = try await withRoom(
      isDelete: isDelete, creating: batch.written, hasGate: hasGate
    ) { (engine) throws(StoreError) in
      try engine.commit(batch.numbered(in: engine.keyspaces), isDelete: isDelete, prepared)
    }
    compactAfterDeleting()
    return sequence
  }

  /// Waits for as much durability as was asked for.
  func waitForDurability(
    of sequence: SequenceNumber?, _ durability: Durability?
  ) async throws(StoreError) {
    if needsWait(durability) { try await waitUntilDurable(sequence) }
  }

  /// - Parameter sequence: of the operation; nil when a key was absent already. Then its absence
  ///   must become durable: the delete that made it so may not be.
  private func waitUntilDurable(_ sequence: SequenceNumber?) async throws(StoreError) {
    if let sequence {
      try await pipeline.waitUntilDurable(sequence.rawValue)
    } else {
      try await pipeline.waitUntilAllDurable()
    }
  }

  /// Waits for all that was written before the call.
  ///
  /// - Returns: the sequence number up to which everything is on stable storage.
  /// - Throws: `.poisoned` with the failure of the sync, `.closed`, `.usedAfterFork`.
  @discardableResult
  public func sync() async throws(StoreError) -> SequenceNumber {
    try await passGate()
    guard engine != nil else { return .none }
    try engine!.checkProcess()
    try await pipeline.waitUntilAllDurable()
    return durableSequence
  }

  /// Sees to a sync in time; true when the caller must wait for it.
  @inline(__always)
  func needsWait(_ durability: Durability?) -> Bool {
    switch (durability ?? opener.configuration.durability).level {
    case .none: return false
    case .interval(let duration):
      pipeline.syncWithin(duration)
      return false
    case .sync: return true
    }
  }
}

extension Store {
  /// Waits until nothing is under way in the background: no compaction, no sealing, no sync that is
  /// due. For tests that must find the same order again.
  package func waitUntilIdle() async throws(StoreError) {
    await compaction.waitForEnd()
    try await pipeline.run { () throws(StoreError) in }
  }

  /// Runs what blocks on a thread of the pool: Swift has only as many as there are processors.
  package nonisolated func runBlocking<Result: Sendable>(
    _ body: @escaping @Sendable () throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await SerialQueue(.lasting).run(body)
  }
}
