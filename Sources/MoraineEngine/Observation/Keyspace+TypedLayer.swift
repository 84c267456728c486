package import MoraineFormat

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

  /// Commits operations together. An operation without a value is a delete.
  ///
  /// - Parameter expiry: the time at which the entries end; nil for the default of this handle.
  package func commit(
    _ operations: [(key: Key, value: [UInt8]?)], expiring expiry: Expiry? = nil,
    durability: Durability?, onVisible: @Sendable (CommitReceipt) -> Void
  ) async throws(StoreError) {
    try await store.commit(
      operations, in: self, expiry ?? defaultExpiry, durability, onVisible: onVisible)
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
    _ operations: [(key: Key, value: [UInt8]?)], in keyspace: Keyspace, _ expiry: Expiry,
    _ durability: Durability?,
    onVisible: @Sendable (CommitReceipt) -> Void
  ) async throws(StoreError) {
    let hasGate = try await beginUnit()
    let sequence: SequenceNumber?
    do {
      defer { endUnit(hasGate) }
      sequence = try await commit(operations, in: keyspace, expiry, hasGate)
      onVisible(CommitReceipt(sequence: sequence, commitCount: keyspace.monitor.commitCount))
    }
    try await waitForDurability(of: sequence, durability)
  }

  private func commit(
    _ operations: [(key: Key, value: [UInt8]?)], in keyspace: Keyspace, _ expiry: Expiry,
    _ hasGate: Bool
  ) async throws(StoreError) -> SequenceNumber? {
    var batch = WriteBatch(store: self)
    for (key, value) in operations {
      if let value {
        try batch.set(value, forKey: key, in: keyspace, expiring: expiry)
      } else {
        try batch.removeValue(forKey: key, in: keyspace)
      }
    }
    return try await commit(batch.take(), hasGate: hasGate)
  }
}
