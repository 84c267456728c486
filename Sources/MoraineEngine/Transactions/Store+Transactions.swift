import MoraineFormat
import MoraineStorage

extension Store {
  /// Runs a transaction: reads, decisions and writes that take effect together, as if nothing else
  /// had happened between them, even when the body waits for something else in between.
  ///
  /// ```swift
  /// try await store.transaction { transaction in
  ///   let balance = try transaction.value(forKey: "balance", in: accounts)
  ///   let price = try await shop.price(of: item)  // other writers go on
  ///   guard let rest = balance.less(price) else { throw Shop.tooExpensive }
  ///   try transaction.set(rest, forKey: "balance", in: accounts)
  ///   try transaction.set(item, forKey: order, in: orders)
  /// }
  /// ```
  ///
  /// The body sees the store as it was when the attempt began, and holds no other writer up. If
  /// another writer has changed what the body has read, its writes are given up, and the body runs
  /// again: so the body must have no other effect, or one that may happen twice. Committed
  /// transactions are strictly serializable, also beside plain writes and other processes of a
  /// shared store. After three attempts other writers wait up to five milliseconds for the next
  /// one, so a short body always succeeds.
  ///
  /// A transaction that writes what it has read of one key is cheaper as
  /// ``update(_:durability:_:)``, and one whose body never waits as ``write(durability:_:)``:
  /// neither takes a snapshot.
  ///
  /// - Parameters:
  ///   - retries: how often the body may run again, at least 0.
  ///   - durability: what to wait for after the commit; nil for the configuration's durability. A
  ///     transaction that only reads waits only where this is not nil: what it has read may not be
  ///     durable yet. A store that was opened for reading only waits for nothing, and makes nothing
  ///     durable.
  ///   - body: runs outside of the store's actor, and may run several times.
  /// - Returns: the result of the body.
  /// - Throws: `.conflict` after the last attempt, with keyspace and key in
  ///   ``StoreError/conflict``, also when the body reads a file that a compaction of another
  ///   process has removed; `.cancelled`; the errors of the body, of ``snapshot()`` and of
  ///   ``write(durability:_:)``. After an error of the body nothing is written.
  public nonisolated func transaction<Result: Sendable>(
    retries: Int = 10, durability: Durability? = nil,
    _ body: @Sendable (Transaction) async throws -> Result
  ) async throws -> Result {
    precondition(retries >= 0, "a transaction runs at least once")
    var conflictCount = 0
    while true {
      let start = try await beginTransaction(hasTurn: conflictCount >= Self.attemptsWithoutTurn)
      let transaction = Transaction(self, start)
      var conflict: StoreError.Conflict?
      var hasReturned = false
      do {
        let result = try await body(transaction)
        // A body may have caught the error.
        try transaction.checkSight()
        hasReturned = true
        conflict = try await commit(transaction.end(), durability)
        if conflict == nil { return result }
      } catch {
        _ = transaction.end()
        await endTurn(start)
        // An error of the commit may come after the writes: they must not be applied again.
        guard !hasReturned else { throw error }
        // No other writer is the cause, so this is no conflict.
        if transaction.lacksOwnWrite { continue }
        // A body that catches the error of a range has its own way.
        if let keyspace = transaction.keyspaceToOrder,
          (error as? StoreError)?.code == .invalidArgument
        {
          try await prepareOrder(keyspace)
          continue
        }
        guard try await isOutdated(start, error) else { throw error }
        conflict = StoreError.Conflict(keyspace: "", key: nil)
      }
      conflictCount += 1
      if let conflict, conflictCount > retries {
        throw StoreError(conflict, attempts: conflictCount)
      }
      try await Self.pause(after: conflictCount)
    }
  }

  /// Runs a transaction whose body throws no errors, or those of the store. See
  /// ``transaction(retries:durability:_:)``.
  public nonisolated func transaction<Result: Sendable>(
    retries: Int = 10, durability: Durability? = nil,
    _ body: @Sendable (Transaction) async throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    do {
      return try await transaction(retries: retries, durability: durability) { try await body($0) }
    } catch {
      throw StoreError(of: error)
    }
  }

  /// Number of attempts after which the next ones hold up other writers.
  private static let attemptsWithoutTurn = 3

  /// Waits before the next attempt. Two transactions that conflict with each other must not meet
  /// again and again, so the time is random.
  private static nonisolated func pause(after conflictCount: Int) async throws(StoreError) {
    let longest = UInt64(50_000) << UInt64(min(conflictCount, 6))
    do {
      try await Task.sleep(nanoseconds: SystemRandom.number() % longest)
    } catch {
      throw StoreError(.cancelled, "the task was cancelled between two attempts of a transaction")
    }
  }

  /// Commits a transaction, unless another writer has changed what it has read. Ends its turn.
  ///
  /// - Returns: the conflict; nil when the transaction is committed.
  private func commit(
    _ contents: TransactionContents, _ durability: Durability?
  ) async throws(StoreError) -> StoreError.Conflict? {
    if contents.isReadOnly {
      endTurn(contents.start)
      guard let durability, durability != Durability.none else { return nil }
      // What was read may not be durable yet, and another process may have written it.
      try await catchUpAsWriter()
      try await waitForDurability(of: nil, durability)
      return nil
    }
    guard !opener.configuration.isReadOnly else {
      throw StoreError(.readOnly, "the store was opened for reading only")
    }
    let hasTurn = contents.start.turn.map { writing.takeTurn($0) } ?? false
    var hasGate = hasTurn
    if !hasTurn {
      try await beginForCondition()
      hasGate = try await beginUnit()
    }
    let sequence: SequenceNumber?
    do {
      defer { if hasTurn { releaseTurn() } else { endUnit(hasGate) } }
      if let conflict = try conflict(with: contents) { return conflict }
      // The snapshot of a store without entries that expire has no time, and one that is used again
      // has an earlier time.
      let time = max(contents.start.time, contents.snapshot.now)
      var batch = WriteBatch(store: self, hasIndexes: hasIndexes, reading: time)
      try contents.write(to: &batch, of: self)
      sequence = try await commit(batch.take(), hasGate: hasGate)
    }
    // During the commit the gate was held, and no compaction could begin.
    compactAfterDeleting()
    try await waitForDurability(of: sequence, durability)
    return nil
  }

  private func conflict(
    with contents: TransactionContents
  ) throws(StoreError) -> StoreError.Conflict? {
    guard engine != nil else { return nil }
    let isSameState = contents.start.stateCount == peers.readStateCount
    do throws(StoreError) {
      return try engine!.conflict(with: contents, isSameState: isSameState)
    } catch {
      // Another process has removed files that the snapshot reads.
      guard error.code == .corrupted, !isSameState else { throw error }
      return StoreError.Conflict(keyspace: "", key: nil)
    }
  }

  /// Returns whether an error comes from files that another process has replaced since the snapshot
  /// was taken: the next attempt reads the new files.
  private func isOutdated(
    _ start: TransactionStart, _ error: any Error
  ) async throws(StoreError) -> Bool {
    guard let error = error as? StoreError else { return false }
    return try await isOutdated(since: start.stateCount, error)
  }
}

/// The beginning of an attempt of a transaction.
struct TransactionStart: Sendable {
  let snapshot: Store.Snapshot
  /// The time before the snapshot was taken, in milliseconds since 1970.
  let time: UInt64
  /// The count of the states that this process has read, at the snapshot.
  let stateCount: UInt64
  /// The number of the attempt's turn: while it lasts, no other writer writes. Nil for an attempt
  /// without a turn.
  let turn: UInt64?
}

// A turn lets a transaction succeed that has met conflicts: no other writer writes, for a short
// time.
extension Store {
  /// The time after which a turn ends, whether the body has returned or not.
  private static let longestTurn = Duration.milliseconds(5)

  /// Takes the snapshot of an attempt.
  ///
  /// - Parameter hasTurn: whether to keep other writers out, until ``endTurn(_:)`` or until the
  ///   longest time of a turn has passed.
  private func beginTransaction(hasTurn: Bool) async throws(StoreError) -> TransactionStart {
    guard hasTurn else {
      try await checkOpen()
      // An entry that the snapshot shows must not have ended at this time.
      let time = observers.clock.now()
      return TransactionStart(
        snapshot: try currentSnapshot(), time: time, stateCount: peers.readStateCount, turn: nil)
    }
    if try await !beginUnit() { writing.roomGate.take() }
    let time = observers.clock.now()
    let snapshot: Store.Snapshot
    do throws(StoreError) { snapshot = try currentSnapshot() } catch {
      releaseTurn()
      throw error
    }
    let turn = writing.beginTurn()
    // The task must run soon, whatever the priority of the transaction: others wait for it.
    Task(priority: .high) { [weak self] in
      // A cancelled wait ends the turn too.
      do { try await Task.sleep(for: Self.longestTurn) } catch {}
      await self?.endTurn(turn)
    }
    return TransactionStart(
      snapshot: snapshot, time: time, stateCount: peers.readStateCount, turn: turn)
  }

  /// Lets other writers write again, unless the turn has ended before.
  private func endTurn(_ start: TransactionStart) {
    if let turn = start.turn { endTurn(turn) }
  }

  private func endTurn(_ turn: UInt64) {
    if writing.takeTurn(turn) { releaseTurn() }
  }

  private func releaseTurn() {
    if isShared, !opener.configuration.isReadOnly { releaseWriterLease() }
    writing.roomGate.release()
  }
}
