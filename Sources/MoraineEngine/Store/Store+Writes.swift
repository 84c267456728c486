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
    } else if let done = try await putWhenThereIsRoom(key, value) {
      sequence = done
    } else {
      let keyspace = Keyspace(store: self, name: "")
      return try await putAsUnit(value, key, keyspace, .never, durability)
    }
    if needsWait(durability) { try await waitUntilDurable(sequence, durability) }
    return sequence
  }

  /// Puts a value without waiting. Returns nil when the put must wait: for other writers, for other
  /// processes, for the store's creation, or for room.
  ///
  /// - Parameter expiry: milliseconds since 1970; 0 for an entry that does not expire.
  @inline(__always)
  func putAtOnce(
    _ key: Key, _ value: [UInt8], _ keyspace: UInt16, expiry: UInt64 = 0
  ) throws(StoreError) -> SequenceNumber? {
    guard !writing.roomGate.isHeld, !isClosed, engine != nil, !isShared,
      !engine!.keyspaces.isIndexed(keyspace)
    else { return nil }
    do throws(StoreError) {
      let outcome =
        expiry == 0
        ? try engine!.put(key, value, keyspace: keyspace)
        : try engine!.put(key, value, keyspace: keyspace, expiry: expiry, nil)
      if case .done(let done) = outcome {
        wakeForChange()
        return done
      }
    } catch {
      // Without a mapping, the write itself may find the disk full.
      guard error.code == .noSpace else { throw error }
    }
    return nil
  }

  /// - Returns: nil when the keyspace has indexes; nothing was written then.
  private func putWhenThereIsRoom(
    _ key: Key, _ value: [UInt8]
  ) async throws(StoreError) -> SequenceNumber? {
    try await passGate()
    let prepared = PreparedValue()
    return try await withRoom(mayWait: true) { (engine) throws(StoreError) in
      if engine.keyspaces.isIndexed(0) { return .done(nil) }
      return try engine.put(key, value, prepared).optional
    }
  }

  /// Puts a value into a keyspace with indexes, as a batch with the changes of its entries.
  func putAsUnit(
    _ value: [UInt8], _ key: Key, _ keyspace: Keyspace, _ expiry: Expiry, _ durability: Durability?
  ) async throws(StoreError) -> SequenceNumber {
    let sequence = try await writeUnit(durability) { (batch) throws(StoreError) in
      try batch.set(value, forKey: key, in: keyspace, expiring: expiry)
    }
    guard let sequence else { fatalError("a batch with a put has written nothing") }
    return sequence
  }

  /// Whether the store has indexes, at a moment at which no other writer writes.
  var hasIndexes: Bool { engine?.keyspaces.hasIndexes ?? false }

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
    var isIndexed = false
    let sequence = try await withRoom(isDelete: true, mayWait: true) {
      (engine) throws(StoreError) -> Outcome<SequenceNumber?> in
      isIndexed = engine.keyspaces.isIndexed(keyspace)
      if isIndexed { return .done(nil) }
      return try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.delete(bytes, keyspace: keyspace, evenExpired: false)
      }
    }
    if isIndexed { return try await removeWithEntries(key, keyspace, durability) }
    compactAfterDeleting()
    if needsWait(durability) { try await waitUntilDurable(sequence, durability) }
    return sequence
  }

  /// Removes a key of a keyspace with indexes, as a batch with its entries.
  private func removeWithEntries(
    _ key: Key, _ id: UInt16, _ durability: Durability?
  ) async throws(StoreError) -> SequenceNumber? {
    guard let name = engine?.keyspaces.name(of: id) else { return nil }
    let keyspace = Keyspace(store: self, name: name)
    let sequence = try await writeUnit(Durability.none) { (batch) throws(StoreError) in
      _ = try batch.removeValue(forKey: key, in: keyspace)
    }
    if needsWait(durability) { try await waitUntilDurable(sequence, durability) }
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
    // Another process may have created the store, with indexes.
    if engine == nil { try await beginForCondition() }
    let hasGate = try await beginUnit()
    let result: Result
    let sequence: SequenceNumber?
    do {
      defer { endUnit(hasGate) }
      var batch = WriteBatch(store: self, hasIndexes: hasIndexes)
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
    let earliest = batch.earliestExpiry
    let prepared = batch.isOneLargeValue ? PreparedValue() : nil
    let sequence = try await withRoom(
      isDelete: isDelete, creating: batch.written, hasGate: hasGate
    ) { (engine) throws(StoreError) in
      try engine.commit(batch.numbered(in: engine.keyspaces), isDelete: isDelete, prepared)
    }
    if earliest != .max { scheduleReaping(for: earliest) }
    compactAfterDeleting()
    return sequence
  }

  /// Begins a compaction if much has become garbage. Called after a delete: after deletes alone, no
  /// segment need ever be sealed again.
  @inline(__always)
  func compactAfterDeleting() {
    // A delete that fits into the room of the segment makes no room, which would begin this wait.
    if !compaction.watchesForIdleness { watchForIdleness() }
    guard engine != nil, compaction.isCheckDue(liveBytes: engine!.live.bytes) else { return }
    // A task that holds the gate calls this function again when it has released the gate.
    guard !writing.roomGate.isHeld else { return }
    compaction.recordCheck(liveBytes: engine!.live.bytes)
    guard compactionPolicy.isAutomatic else { return }
    if compaction.isRunning { compaction.requestRecheck() } else { compactIfMuchIsGarbage() }
  }

  /// Waits until the operation is as durable as the caller asked.
  func waitForDurability(
    of sequence: SequenceNumber?, _ durability: Durability?
  ) async throws(StoreError) {
    if needsWait(durability) { try await waitUntilDurable(sequence, durability) }
  }

  /// Waits after ``needsWait(_:)`` has said so.
  ///
  /// - Parameter sequence: the operation's number; nil when the key was absent already. Then the
  ///   absence must become durable, because the delete that removed the key may not be durable yet.
  func waitUntilDurable(
    _ sequence: SequenceNumber?, _ durability: Durability?
  ) async throws(StoreError) {
    let number = sequence?.rawValue ?? pipeline.lastAppended
    try await pipeline.waitUntilDurable(number)
    guard (durability ?? opener.configuration.durability).level == .replicated else { return }
    try await pipeline.replication.wait(until: number)
  }

  /// Waits until all writes before the call are on stable storage, in a shared store also those of
  /// other processes. A store that was opened for reading only waits for nothing, and makes nothing
  /// durable.
  ///
  /// - Returns: the sequence number up to which all operations are on stable storage.
  /// - Throws: `.poisoned` with the failure of the sync, `.closed`, `.usedAfterFork`; in a shared
  ///   store `.locked` when another process has been writing for a minute. After a failure that
  ///   has ended writing for good, ``poison``, also when all writes are on stable storage.
  @discardableResult
  public func sync() async throws(StoreError) -> SequenceNumber {
    try await passGate()
    guard engine != nil else { return .none }
    try engine!.checkProcess()
    try throwPoison()
    try await catchUpAsWriter()
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
    case .sync, .replicated: return true
    }
  }
}

extension Store {
  /// Waits until no work is under way in the background: no compaction, no sealing, no sync that is
  /// due. For tests that need the same order of operations in each run.
  package func waitUntilIdle() async throws(StoreError) {
    await compaction.waitForEnd()
    await writing.waitForSegmentTasks()
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

extension Store {
  /// Waits while another writer holds the gate, and checks that the store can be used.
  func passGate() async throws(StoreError) {
    // In a forked child, the task that holds the gate does not exist.
    if writing.roomGate.isHeld, !pipeline.isInItsProcess { throw .usedAfterFork }
    await writing.roomGate.waitUntilFree()
    if isShared, engine == nil { try await joinOthers() }
    try checkUsable()
  }

  /// Keeps all other writers out until ``endUnit(_:)``, also those of other processes: values that
  /// the caller reads do not change before it writes.
  ///
  /// - Returns: whether the caller now holds the gate; in a store that is not shared it needs none.
  func beginUnit() async throws(StoreError) -> Bool {
    try await passGate()
    guard isShared else {
      try await checkOpen()
      return false
    }
    guard !opener.configuration.isReadOnly else {
      // Another task may have taken the gate while this one followed the other processes.
      try await checkOpen()
      try await passGate()
      return false
    }
    writing.roomGate.take()
    do throws(StoreError) {
      if engine == nil { try await beginStore() }
      _ = try await acquireWriterLease()
    } catch {
      writing.roomGate.release()
      throw error
    }
    return true
  }

  func endUnit(_ hasGate: Bool) {
    guard hasGate else { return }
    releaseWriterLease()
    writing.roomGate.release()
    // While the gate was held, no compaction could begin.
    compactAfterDeleting()
  }

  /// Runs the attempt, and makes room for it and repeats it until there is enough. No other writer
  /// comes between the attempts, except while this function waits for space to be freed.
  ///
  /// - Parameters:
  ///   - isDelete: whether the attempt may use the space that is reserved for a full disk.
  ///   - isReaping: whether the attempt deletes what has expired. No caller can make it smaller.
  ///   - mayWait: whether other writers may come first while a full disk is being cleaned.
  ///   - keyspaces: the keyspaces that must exist before the attempt.
  ///   - hasGate: whether the caller holds the gate, and keeps it. Then no other writer may pass.
  func withRoom<Value>(
    isDelete: Bool = false, isReaping: Bool = false, mayWait: Bool = false,
    creating keyspaces: [KeyspaceRequest] = [], hasGate: Bool = false,
    _ attempt: (inout EngineState) throws(StoreError) -> Outcome<Value>
  ) async throws(StoreError) -> Value {
    precondition(!hasGate || !mayWait, "an attempt that keeps the gate must not wait")
    assert(isDelete || !isReaping, "an attempt deletes what has expired, and is no delete")
    if !hasGate { writing.roomGate.take() }
    defer { if !hasGate { writing.roomGate.release() } }
    // Also after an error: a batch may be visible then.
    defer { refreshStaleReaders() }
    if engine == nil { try await beginStore() }
    var hasLease = isShared ? try await acquireWriterLease() : false
    defer { if hasLease { releaseWriterLease() } }
    var seen: UInt64?
    var hasWaitedForSpace = false
    // The space that a compaction took from the reserve is for its copies: they free more than
    // deletes do.
    if isDelete, mayWait, compaction.hasReserve { try await waitForCompaction(&hasLease) }
    var hasTriedAgain = false
    var kept = KeptSpace.nothing
    while true {
      let endCount = compaction.endCount
      do throws(StoreError) {
        if !keyspaces.isEmpty { try await createKeyspaces(keyspaces) }
        switch try attempt(&engine!) {
        case .done(let value):
          wakeForChange()
          return value
        case .needsRoom(let count):
          if isDelete { await keepForCompaction(&kept) }
          if !isDelete { try await keepReserve() }
          try await makeRoom(for: count, isDelete: isDelete)
        }
      } catch {
        guard error.code == .noSpace else { throw error }
        // A compaction that has ended used space during the attempt, and has released it.
        if mayWait, !hasTriedAgain, compaction.endCount != endCount {
          hasTriedAgain = true
          continue
        }
        sendOutOfSpace(error)
        compactBecauseFull()
        // The space is reserved for deletes on a full disk. But a compaction under way needs some
        // of it to free more, and may not have had its turn yet.
        let canBeFreed = mayWait && compaction.isForFullDisk && !hasWaitedForSpace
        if isDelete, !canBeFreed, try await shrinkReserve() { continue }
        // Waiting again makes sense only if segments were rewritten during the last wait.
        guard mayWait, compaction.isRunning, !hasWaitedForSpace || seen != compaction.count else {
          if try await giveBack(&kept, isReaping: isReaping) { continue }
          throw error
        }
        seen = compaction.count
        // The work under way may be only a checkpoint, which frees nothing.
        hasWaitedForSpace = hasWaitedForSpace || compaction.isForFullDisk
        try await waitForCompaction(&hasLease)
      }
    }
  }

  /// Lets other writers pass, and takes the gate again when the compaction has ended.
  private func waitForCompaction(_ hasLease: inout Bool) async throws(StoreError) {
    if hasLease { releaseWriterLease() }
    hasLease = false
    writing.roomGate.release()
    await compaction.waitForEnd()
    do throws(StoreError) {
      try await passGate()
    } catch {
      // The caller releases the gate at its end.
      writing.roomGate.take()
      throw error
    }
    writing.roomGate.take()
    hasLease = try await acquireWriterLease()
  }

  /// Creates the store on disk, or opens the store that another process has created since this
  /// store was opened.
  func beginStore() async throws(StoreError) {
    let box = try await opener.openWithoutBlocking(creating: true)
    // A read may have opened it in the meantime, after another process created it.
    guard engine == nil else { return }
    engine = box.take()
    begunFollowing()
    sendOpened()
  }

  /// What a delete has reserved for a compaction.
  private enum KeptSpace {
    case nothing
    /// Space that the delete may have to use itself.
    case reserved
    case givenBack
  }

  /// Reserves space for a compaction before a delete takes space, where nothing is reserved: after
  /// an opening there may be no reserve, and on a full disk no put makes one. Otherwise deletes
  /// would use up the disk, and no compaction could free any space.
  private func keepForCompaction(_ kept: inout KeptSpace) async {
    // The compaction under way uses the space, and reserves it again.
    guard kept != .givenBack, engine?.log.reserve.lengthBytes == 0, !compaction.hasReserve
    else { return }
    let target = Reserve.target(liveBytes: engine!.live.bytes)
    do throws(StoreError) {
      if isShared {
        try await changeReserve { (reserve) throws(StorageError) in try reserve.find() }
        if engine!.log.reserve.lengthBytes > 0 { return }
      }
      try await changeReserve { (reserve) throws(StorageError) in
        try reserve.restore(target, leavesHalf: true)
      }
    } catch {
      // A delete works without a reserve. The next put reserves the space, or throws the error.
    }
    // A delete works even in the last blocks.
    if engine!.log.reserve.lengthBytes > 0 { kept = .reserved }
  }

  /// Releases what is reserved for a compaction, if the delete had reserved space for one: there is
  /// no space beside it, and a compaction that the delete has waited for has freed none.
  ///
  /// Deletes of entries that have expired also release what no put has completed (an earlier delete
  /// reserved it, also in another process or before a crash), if no compaction would free much with
  /// it: nothing else would let them go on.
  ///
  /// - Returns: whether that released any space.
  private func giveBack(
    _ kept: inout KeptSpace, isReaping: Bool
  ) async throws(StoreError) -> Bool {
    guard engine != nil, engine!.log.reserve.lengthBytes > 0 else { return false }
    if kept != .reserved {
      guard isReaping, !engine!.log.reserve.isFull, !compaction.isRunning,
        !engine!.compactionFigures().isWorthCleaning
      else { return false }
    }
    kept = .givenBack
    try await changeReserve { (reserve) throws(StorageError) in try reserve.release() }
    return true
  }

  /// Releases the part of the reserve that deletes may use.
  ///
  /// - Returns: whether that released any space.
  private func shrinkReserve() async throws(StoreError) -> Bool {
    guard engine != nil else { return false }
    let before = engine!.log.reserve.lengthBytes
    let target = Reserve.target(liveBytes: engine!.live.bytes)
    try await changeReserve { (reserve) throws(StorageError) in try reserve.shrink(for: target) }
    return engine != nil && engine!.log.reserve.lengthBytes < before
  }

  /// Releases the whole reserve, for work that frees more space.
  ///
  /// - Returns: whether there was a reserve.
  func releaseReserve() async throws(StoreError) -> Bool {
    guard engine != nil, engine!.log.reserve.lengthBytes > 0 else { return false }
    try await changeReserve { (reserve) throws(StorageError) in try reserve.release() }
    compaction.reserveWasReleased()
    return true
  }

  /// Fills the reserve before a put, because puts must not use up the reserved space.
  private func keepReserve() async throws(StoreError) {
    let target = Reserve.target(liveBytes: engine!.live.bytes)
    if engine!.log.reserve.holds(target) { return }
    try await changeReserve { (reserve) throws(StorageError) in try reserve.keep(target) }
  }

  func changeReserve(
    _ change: @escaping @Sendable (inout Reserve) throws(StorageError) -> Void
  ) async throws(StoreError) {
    let before = engine!.log.reserve
    let after = try await pipeline.allocations.run { () throws(StoreError) in
      var reserve = before
      try storing { () throws(StorageError) in try change(&reserve) }
      return reserve
    }
    if engine != nil { engine!.log.reserve = after }
  }
}
