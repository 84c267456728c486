package import MoraineFormat
import Synchronization

/// The result of a commit, for callers that keep the written values in memory.
package struct CommitReceipt: Sendable {
  /// Sequence number of the last operation; nil when there was nothing to commit.
  package var sequence: SequenceNumber?
  /// The keyspace's ``ChangeMonitor/commitCount`` including this commit.
  package var commitCount: UInt64
}

extension Keyspace {
  /// A counter of the commits to this keyspace by any process.
  package var monitor: ChangeMonitor { store.observers.monitor(of: name) }

  /// Commits operations together.
  ///
  /// - Parameter expiry: the time at which the entries end; nil for the default of this handle.
  package func commit(
    _ operations: [KeyspaceOperation], expiring expiry: Expiry? = nil,
    durability: Durability?, onVisible: @Sendable (CommitReceipt) -> Void
  ) async throws(StoreError) {
    try await store.commit(
      operations, in: self, expiry ?? defaultExpiry, durability, onVisible: onVisible)
  }

  /// Runs the body with a batch, and then applies the whole batch at once. No other writer, of any
  /// process, writes between the beginning of the body and the end of the batch.
  ///
  /// - Parameters:
  ///   - onVisible: called as soon as the batch is visible, before it is durable.
  ///   - body: adds operations to the batch, unless it returns a failure.
  /// - Returns: the outcome of the body.
  package func commit<Value: Sendable, Failure: Error>(
    durability: Durability?, onVisible: @Sendable (CommitReceipt) -> Void,
    _ body: sending (inout WriteBatch) throws(StoreError) -> Result<Value, Failure>
  ) async throws(StoreError) -> Result<Value, Failure> {
    try await store.commit(in: self, durability, onVisible: onVisible, body)
  }

  /// Returns the value of a key with its sequence number; nil when the store is closed.
  package func observedValue(forKey key: Key) async throws(StoreError) -> ObservedValue? {
    try await store.observedValue(forKey: key, in: name)
  }

  /// Returns all live records at one moment.
  package func entries() async throws(StoreError) -> [Store.Entry] {
    try await store.entries(in: name).entries
  }
}

extension Store {
  /// - Parameter onVisible: called as soon as the operations are visible, before they are durable.
  fileprivate func commit(
    _ operations: [KeyspaceOperation], in keyspace: Keyspace, _ expiry: Expiry,
    _ durability: Durability?,
    onVisible: @Sendable (CommitReceipt) -> Void
  ) async throws(StoreError) {
    // Another process may have created the store, with indexes.
    if engine == nil { try await beginForCondition() }
    let hasGate = try await beginUnit()
    let sequence: SequenceNumber?
    do {
      defer { endUnit(hasGate) }
      sequence = try await commit(operations, in: keyspace, expiry, hasGate)
      onVisible(CommitReceipt(sequence: sequence, commitCount: keyspace.monitor.commitCount))
    }
    try await waitForDurability(of: sequence, durability)
  }

  fileprivate func commit<Value: Sendable, Failure: Error>(
    in keyspace: Keyspace, _ durability: Durability?,
    onVisible: @Sendable (CommitReceipt) -> Void,
    _ body: sending (inout WriteBatch) throws(StoreError) -> Result<Value, Failure>
  ) async throws(StoreError) -> Result<Value, Failure> {
    if engine == nil { try await beginForCondition() }
    let hasGate = try await beginUnit()
    let outcome: Result<Value, Failure>
    let sequence: SequenceNumber?
    do {
      defer { endUnit(hasGate) }
      var batch = WriteBatch(store: self, hasIndexes: hasIndexes)
      outcome = try body(&batch)
      sequence = try await commit(batch.take(), hasGate: hasGate)
      onVisible(CommitReceipt(sequence: sequence, commitCount: keyspace.monitor.commitCount))
    }
    // A body that has failed has written nothing, so there is nothing to wait for.
    if case .success = outcome { try await waitForDurability(of: sequence, durability) }
    return outcome
  }

  private func commit(
    _ operations: [KeyspaceOperation], in keyspace: Keyspace, _ expiry: Expiry,
    _ hasGate: Bool
  ) async throws(StoreError) -> SequenceNumber? {
    var batch = WriteBatch(store: self, hasIndexes: hasIndexes)
    try batch.add(operations, in: keyspace, expiring: expiry)
    return try await commit(batch.take(), hasGate: hasGate)
  }
}

extension WriteBatch {
  /// Adds operations that take effect together: records may exchange values of a unique index.
  ///
  /// - Parameter expiry: the time at which the entries end of operations that name no time.
  package mutating func add(
    _ operations: [KeyspaceOperation], in keyspace: Keyspace, expiring expiry: Expiry
  ) throws(StoreError) {
    var operations = operations
    let isExchange =
      operations.count > 1 && operations.contains { $0.row?.hasUniqueValues == true }
    if isExchange {
      // A value that is replaced in the same batch is no reason to refuse another model.
      var seen: Set<Key> = []
      let last = operations.reversed().filter { seen.insert($0.key).inserted }
      operations = []
      for operation in last.reversed() {
        let (key, isDelete) = (operation.key, operation.value == nil)
        if try beginExchange(ofKey: key, in: keyspace, isDelete: isDelete) {
          operations.append(operation)
        }
      }
    }
    for operation in operations {
      if let value = operation.value {
        try set(
          value, forKey: operation.key, in: keyspace, expiring: operation.expiry ?? expiry,
          row: operation.row)
      } else if isExchange {
        try endExchange(deleting: operation.key, in: keyspace)
      } else {
        try removeValue(forKey: operation.key, in: keyspace)
      }
    }
  }

  /// Removes the entries that a record has in indexes, before this batch sets or deletes several
  /// records: two of them may exchange a value of a unique index.
  ///
  /// - Returns: whether the operation has an effect. The delete of a record that has expired has
  ///   none: the record keeps its entries, because it comes back when the clock was wrong.
  mutating func beginExchange(
    ofKey key: Key, in keyspace: Keyspace, isDelete: Bool
  ) throws(StoreError) -> Bool {
    guard try isDelete ? contains(key, in: keyspace) : true else { return false }
    try removeEntries(ofKey: key, in: keyspace)
    return true
  }

  /// Deletes a record after ``beginExchange(ofKey:in:isDelete:)``. It goes also when it has expired
  /// since: it must not stay without its entries.
  mutating func endExchange(deleting key: Key, in keyspace: Keyspace) throws(StoreError) {
    try removeRecord(place(key, keyspace))
  }

  /// Removes all entries that a keyspace has in the store.
  ///
  /// - Returns: the number of entries.
  /// - Throws: the errors of reading the whole log, and those of ``removeValue(forKey:)``.
  /// - Complexity: O(bytes of the log); the keys are in memory.
  package mutating func removeAll(in keyspace: Keyspace) throws(StoreError) -> Int {
    var count = 0
    for key in try storedKeys(in: keyspace) where try removeValue(forKey: key, in: keyspace) {
      count += 1
    }
    return count
  }

  /// Returns the value that a key has in the store, with its sequence number. The caller has not
  /// written the key in this batch.
  package mutating func storedVersion(
    forKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) -> VersionedValue? {
    try storedVersion(of: place(key, keyspace))
  }
}

extension Store {
  /// Runs the body with a batch, and then applies the whole batch at once. See
  /// ``write(durability:_:)``; only errors of the store are thrown.
  package func writeTyped<Result: Sendable>(
    _ body: @Sendable (inout WriteBatch) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    var result: Result?
    _ = try await writeUnit(Durability.none) { (batch) throws(StoreError) in
      result = try body(&batch)
    }
    guard let result else { fatalError("a batch has ended without its body") }
    return result
  }

  /// Executor for tasks that write in the background: a thread of Swift's pool may be blocked at
  /// the end of the process. Nil in a forked child.
  package nonisolated var backgroundExecutor: (any TaskExecutor)? { pipeline.taskExecutor }

  /// Reports an event of the typed layer.
  package nonisolated func report(_ event: StoreEvent) { send(event) }

  /// The time by which reads hide entries, in milliseconds since 1970: that of the clock, but never
  /// an earlier time than before.
  package nonisolated var expiryMilliseconds: UInt64 { observers.clock.now() }

  /// Whether the store was opened for reading only.
  package nonisolated var isReadOnly: Bool { opener.configuration.isReadOnly }

  /// Whether the store follows an archive. It refuses writes until it is promoted.
  package nonisolated var isFollowing: Bool {
    // Relaxed: see the declaration.
    pipeline.isFollowing.load(ordering: .relaxed)
  }
}
