public import MoraineFormat
import MoraineStorage

extension Store {
  /// Stores a value under a key, and replaces the previous value of the key.
  ///
  /// - Parameters:
  ///   - value: any bytes, up to `StoreLimits.valueLengthBytes`.
  ///   - key: any bytes, up to `StoreLimits.keyLengthBytes`.
  ///   - durability: what to wait for; nil for the configuration's durability.
  /// - Returns: the operation's sequence number.
  /// - Throws: `.keyTooLarge`, `.valueTooLarge`, `.noSpace`, `.io`, `.poisoned`, `.corrupted` (the
  ///   value being replaced), `.readOnly`, `.closed`, `.usedAfterFork`. After `.poisoned`, or `.io`
  ///   from a sync, the write may or may not be present after reopening.
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

  /// Puts a value without waiting. Returns nil when the put must wait: for other writers, for other
  /// processes, for the store's creation, or for room.
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
      // Without a mapping, the write itself may find the disk full.
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
  /// When the key does not exist, nothing is written. With ``Durability/sync``, the absence of the
  /// key is durable when this returns.
  ///
  /// - Returns: the operation's sequence number, or nil when the key did not exist.
  /// - Throws: the errors of ``set(_:forKey:durability:)``.
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

  /// Runs the body with a batch, and then applies the whole batch at once. When the body throws,
  /// nothing is applied.
  ///
  /// The batch reads its own writes. No other writer writes between the beginning of the body and
  /// the end of the batch.
  ///
  /// - Throws: the errors of the body, and those of ``set(_:forKey:durability:)``.
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

  /// - Parameter hasGate: the result of ``beginUnit()``.
  /// - Returns: the sequence number of the last operation; nil when the batch is empty.
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

  /// Waits until the operation is as durable as the caller asked.
  func waitForDurability(
    of sequence: SequenceNumber?, _ durability: Durability?
  ) async throws(StoreError) {
    if needsWait(durability) { try await waitUntilDurable(sequence) }
  }

  /// - Parameter sequence: the operation's number; nil when the key was absent already. Then the
  ///   absence must become durable, because the delete that removed the key may not be durable yet.
  private func waitUntilDurable(_ sequence: SequenceNumber?) async throws(StoreError) {
    if let sequence {
      try await pipeline.waitUntilDurable(sequence.rawValue)
    } else {
      try await pipeline.waitUntilAllDurable()
    }
  }

  /// Waits until all writes before the call are on stable storage.
  ///
  /// - Returns: the sequence number up to which all operations are on stable storage.
  /// - Throws: `.poisoned` with the failure of the sync, `.closed`, `.usedAfterFork`.
  @discardableResult
  public func sync() async throws(StoreError) -> SequenceNumber {
    try await passGate()
    guard engine != nil else { return .none }
    try engine!.checkProcess()
    try await pipeline.waitUntilAllDurable()
    return durableSequence
  }

  /// Schedules the sync that `durability` asks for. Returns true when the caller must wait for it.
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
  /// Waits until no work is under way in the background: no compaction, no sealing, no sync that is
  /// due. For tests that need the same order of operations in each run.
  package func waitUntilIdle() async throws(StoreError) {
    await compaction.waitForEnd()
    try await pipeline.run { () throws(StoreError) in }
  }

  /// Runs work that blocks on a thread of the pool. Swift's own pool has only as many threads as
  /// there are processors.
  package nonisolated func runBlocking<Result: Sendable>(
    _ body: @escaping @Sendable () throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await SerialQueue(.lasting).run(body)
  }
}
