import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// Takes writes on any thread without a call of the actor, and lets the store apply them in their
  /// order: for the main actor, where each call of the store is a change of threads.
  ///
  /// ```swift
  /// let queue = try await store.writeQueue()  // once
  /// try await queue.set(bytes, forKey: "draft")  // suspends only while the queue is full
  /// let draft = try queue.value(forKey: "draft")  // sees the write that waits
  /// try await queue.flush()  // the writes are in the store
  /// ```
  ///
  /// **Order.** The store applies the writes of a queue one after the other, those that wait
  /// together as one batch. Reads of the queue see each of its earlier writes. Calls of the store
  /// itself, and its other readers, see a write when the store has applied it, soon after; a call
  /// that must see it comes after ``flush(durability:)``.
  ///
  /// **Durability.** A write in the queue is in the memory of the process only: it is acknowledged
  /// by ``flush(durability:)``. ``Store/close()`` and ``Store/suspend()`` first apply what waits.
  ///
  /// **Errors.** When the store cannot apply a write, it has applied all earlier ones, and the
  /// queue drops that write and all later ones. From then on each write and each
  /// ``flush(durability:)`` throws that error, in all tasks that use the queue, until ``reset()``.
  /// So a flush that succeeds says that no earlier write was dropped, whichever task queued it. If
  /// no call has thrown the error, ``Store/close()`` and ``Store/suspend()`` throw it. The same
  /// holds for an error of waiting for the durability, such as `.archiveUnavailable`; but then the
  /// writes are in the store, and what waits is applied too.
  public struct WriteQueue: Sendable {
    private let writes: QueuedWrites
    private let keyspace: Keyspace
    private let reader: Store.Reader

    init(_ writes: QueuedWrites, _ keyspace: Keyspace, _ reader: Store.Reader) {
      (self.writes, self.keyspace) = (writes, keyspace)
      self.reader = reader.keyspace(named: keyspace.name)
    }

    /// Returns the same queue for a keyspace of the same store: the order spans the keyspaces.
    public func keyspace(_ keyspace: Keyspace) -> WriteQueue {
      precondition(keyspace.store === self.keyspace.store, "a queue writes to its own store only")
      return WriteQueue(writes, keyspace, reader)
    }

    /// Queues a put. Suspends only while the queue is full.
    ///
    /// An ``Expiry`` of nil stands for the default of the keyspace. Until the store has applied the
    /// put, reads of the queue return also an entry that has ended.
    ///
    /// - Throws: `.keyTooLarge`, `.valueTooLarge`, `.readOnly`, `.closed`, `.suspended`,
    ///   `.usedAfterFork`; the error of an earlier write that was dropped; `.cancelled` when the
    ///   task is cancelled before the queue has room.
    /// - Complexity: O(key); the value is not copied.
    public nonisolated(nonsending) func set(
      _ value: [UInt8], forKey key: Key, expiring expiry: Expiry? = nil
    ) async throws(StoreError) {
      try await addWaiting(KeyspaceOperation(key: key, value: value), expiring: expiry)
    }

    /// Queues a removal. See ``set(_:forKey:expiring:)``.
    public nonisolated(nonsending) func removeValue(forKey key: Key) async throws(StoreError) {
      try await addWaiting(KeyspaceOperation(key: key, value: nil))
    }

    /// Queues a put, for code that cannot wait. See ``set(_:forKey:expiring:)``.
    ///
    /// - Returns: false when the queue is full; nothing was queued then.
    public func trySet(
      _ value: [UInt8], forKey key: Key, expiring expiry: Expiry? = nil
    ) throws(StoreError) -> Bool {
      try add(KeyspaceOperation(key: key, value: value), expiring: expiry)
    }

    /// Queues a removal, for code that cannot wait. See ``trySet(_:forKey:expiring:)``.
    public func tryRemoveValue(forKey key: Key) throws(StoreError) -> Bool {
      try add(KeyspaceOperation(key: key, value: nil))
    }

    /// Queues an operation, with its values for indexes.
    ///
    /// - Parameter expiry: the time at which the entry ends; nil for the default of the keyspace.
    package func add(
      _ operation: KeyspaceOperation, expiring expiry: Expiry? = nil
    ) throws(StoreError) -> Bool {
      try keyspace.store.checkQueueing()
      try operation.checkLimits()
      let wanted = expiry ?? keyspace.defaultExpiry
      // Of this moment, whenever the store applies the write.
      let beginning: UInt64? = wanted == .unchanged ? keyspace.store.observers.clock.now() : nil
      let expiry = wanted.counted(from: keyspace.store.observers.clock.now())
      return try writes.add(operation, in: keyspace, expiry, reading: beginning)
    }

    /// Queues an operation when the queue has room for it. See ``add(_:expiring:)``.
    package nonisolated(nonsending) func addWaiting(
      _ operation: KeyspaceOperation, expiring expiry: Expiry? = nil
    ) async throws(StoreError) {
      while try !add(operation, expiring: expiry) {
        await writes.waitForRoom(for: operation)
        if Task.isCancelled {
          throw StoreError(.cancelled, "the task was cancelled while the queue was full")
        }
      }
    }

    /// Returns the value that the last queued write of a key has left, or else the value in the
    /// store; nil when the key does not exist.
    ///
    /// - Throws: the errors of ``Store/Reader/value(forKey:)``.
    public func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
      if let pending = try pending(key) { return pending.value }
      return try reader.value(forKey: key)
    }

    /// Returns whether a key exists after the queued writes. Throws the errors of
    /// ``value(forKey:)``.
    public func contains(_ key: Key) throws(StoreError) -> Bool {
      if let pending = try pending(key) { return pending.value != nil }
      return try reader.contains(key)
    }

    /// Returns the last queued write of a key; nil when the store has applied it.
    package func pending(_ key: Key) throws(StoreError) -> KeyspaceOperation? {
      try keyspace.store.checkProcess()
      return writes.pending(key, in: keyspace.name)
    }

    /// Waits until the store has applied all writes that were queued before the call, in all
    /// keyspaces of the queue.
    ///
    /// - Parameter durability: what to wait for; nil for the configuration's durability.
    ///   With ``Durability/sync``, also the absence of keys that were removed is durable then.
    /// - Returns: the sequence number of the last operation that the store has applied; nil when
    ///   there was none.
    /// - Throws: the error of the first write that could not be applied, until ``reset()``; it and
    ///   all later writes were dropped. The error of a wait for the durability drops none. Errors
    ///   as in ``Store/set(_:forKey:durability:)``.
    @discardableResult
    public func flush(durability: Durability? = nil) async throws(StoreError) -> SequenceNumber? {
      try keyspace.store.checkProcess()
      let sequence = try await writes.waitUntilApplied()
      if let durability {
        // Not only up to that operation: a removal of an absent key has no number.
        try await keyspace.store.waitForDurability(of: nil, durability)
      }
      return sequence
    }

    /// Makes a queue that has dropped writes take writes again. Call it when all tasks that use the
    /// queue know of the error: a later flush does not report it.
    ///
    /// - Returns: the error that each write and flush has thrown until now; nil when there is none.
    /// - Throws: `.usedAfterFork`.
    @discardableResult
    public func reset() throws(StoreError) -> StoreError? {
      try keyspace.store.checkProcess()
      return writes.reset()
    }

    /// The number of flushes that wait; for tests.
    package var flushCount: Int { writes.flushCount }

    /// The number of tasks that wait for room; for tests.
    package var writerCount: Int { writes.writerCount }

    /// About the memory of the waiting writes: their keys, values and values in indexes, and 256
    /// bytes for each. 0 in a forked child.
    public var pendingBytes: Int {
      keyspace.store.pipeline.isInItsProcess ? writes.pendingBytes : 0
    }
  }

  /// Returns a queue of writes, which other threads and the main actor can use. One queue serves a
  /// whole program; see ``Store/Reader`` for the cost of its reads.
  ///
  /// - Parameter capacityBytes: ``WriteQueue/pendingBytes`` from which on the queue is full. A
  ///   half-empty queue takes any write.
  /// - Throws: the errors of ``reader()``.
  public func writeQueue(
    capacityBytes: Int = 1 << 20
  ) async throws(StoreError) -> Store.WriteQueue {
    precondition(capacityBytes > 0, "a queue has room for a write")
    let reader = try await reader()
    let writes = QueuedWrites(capacityBytes: capacityBytes)
    writing.add(writes)
    return WriteQueue(writes, Keyspace(store: self, name: ""), reader)
  }
}

extension KeyspaceOperation {
  fileprivate func checkLimits() throws(StoreError) {
    try key.bytes.withBytes { (key) throws(StoreError) in
      try (value ?? []).withBytes { (value) throws(StoreError) in
        try EngineState.checkLimits(key, value)
      }
    }
  }
}

extension Store {
  /// In a forked child, a thread of the parent may hold the lock of the queue for ever.
  fileprivate nonisolated func checkProcess() throws(StoreError) {
    if !pipeline.isInItsProcess { throw .usedAfterFork }
  }

  fileprivate nonisolated func checkQueueing() throws(StoreError) {
    try checkProcess()
    if opener.configuration.isReadOnly || pipeline.isFollowing.load(ordering: .relaxed) {
      throw EngineState.refusal(opener.configuration)
    }
  }

  /// Applies the writes of a queue until none is left.
  func drain(_ queue: QueuedWrites) async {
    while let writes = queue.take() {
      let sequence: SequenceNumber?
      do throws(StoreError) { sequence = try await apply(writes[...], of: queue) } catch {
        await applyEach(writes, of: queue, error)
        continue
      }
      await acknowledge(writes[...], sequence, of: queue)
    }
  }

  /// Waits until writes that the store has applied are as durable as the configuration says.
  ///
  /// An error does not undo the writes. They must not be applied again: other tasks may have
  /// replaced them since.
  private func acknowledge(
    _ writes: ArraySlice<QueuedWrites.Write>, _ sequence: SequenceNumber?, of queue: QueuedWrites
  ) async {
    do throws(StoreError) {
      try await waitForDurability(of: sequence, nil)
      queue.finished(writes, sequence)
    } catch {
      queue.finished(writes, sequence, error)
      if pipeline.hasPoison { queue.failed(error) }
      writing.keepUntilReported(queue)
    }
  }

  /// - Returns: the number of the last operation; nil when all were removals of absent keys.
  private func apply(
    _ writes: ArraySlice<QueuedWrites.Write>, of queue: QueuedWrites
  ) async throws(StoreError) -> SequenceNumber? {
    let sequence = try await writeUnit(Durability.none) { (batch) throws(StoreError) in
      for write in writes {
        if let beginning = write.beginning { batch.beginning = beginning }
        try batch.add([write.operation], in: write.keyspace, expiring: write.expiry)
      }
    }
    // No other call runs between the commit and this one. So a read of the queue cannot show one of
    // these writes after another task has replaced it.
    queue.becameVisible(writes)
    return sequence
  }

  /// Applies writes one by one, because their batch has failed, up to the first one that fails.
  private func applyEach(
    _ writes: [QueuedWrites.Write], of queue: QueuedWrites, _ cause: StoreError
  ) async {
    guard writes.count > 1, cause.isOfOneWrite, !pipeline.hasPoison else {
      return recordFailure(of: queue, cause)
    }
    var (count, last): (Int, SequenceNumber?) = (0, nil)
    var failure: StoreError?
    do throws(StoreError) {
      for place in writes.indices {
        last = try await apply(writes[place...place], of: queue) ?? last
        count += 1
      }
    } catch { failure = error }
    // One sync for all of them.
    if count > 0 { await acknowledge(writes[..<count], last, of: queue) }
    if let failure { recordFailure(of: queue, failure) }
  }

  private func recordFailure(of queue: QueuedWrites, _ error: StoreError) {
    queue.failed(error)
    writing.keepUntilReported(queue)
  }
}

extension StoreError {
  /// Whether one write of a batch may have caused the error, so that those before it can be
  /// applied.
  fileprivate var isOfOneWrite: Bool {
    switch code {
    case .closed, .suspended, .locked, .poisoned, .usedAfterFork, .readOnly, .cancelled: false
    default: true
    }
  }
}
