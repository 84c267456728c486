package import MoraineFormat

/// The value of one key: the one that is there, and each later one that is found when asked.
///
/// Values between two calls are left out: a slow reader gets the latest, and nothing piles up. It
/// ends when the store is closed or the task is cancelled.
public struct ValueSequence: AsyncSequence, Sendable {
  /// The bytes, or nil when the key is not there.
  public typealias Element = [UInt8]?
  public typealias Failure = StoreError

  let keyspace: Keyspace
  let key: Key

  public func makeAsyncIterator() -> Iterator { Iterator(keyspace: keyspace, key: key) }

  /// Waits for the key to change; one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let keyspace: Keyspace
    fileprivate let key: Key
    /// Nil before the first call.
    private var seen: SequenceNumber??
    private var seenChange: UInt64 = 0

    fileprivate init(keyspace: Keyspace, key: Key) {
      self.keyspace = keyspace
      self.key = key
    }

    /// - Throws: as ``Store/value(forKey:)``.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Element? {
      let store = keyspace.store
      while !Task.isCancelled {
        try await store.joinOthers()
        let answer: VersionedValue?
        do throws(StoreError) {
          answer = try await store.versionedValue(forKey: key, in: keyspace.name)
        } catch {
          guard error.code == .suspended else { throw error }
          _ = await store.waitWhileSuspended()
          continue
        }
        guard let found = answer else { return nil }
        seenChange = found.storeSequence
        if seen != .some(found.sequence) {
          seen = .some(found.sequence)
          return .some(found.value)
        }
        guard try await store.waitForChange(behind: seenChange) else { return nil }
      }
      return nil
    }
  }
}

/// A value, and how old it is.
package struct VersionedValue: Sendable {
  /// Nil when the key is not there.
  package var value: [UInt8]?
  package var sequence: SequenceNumber?
  /// Of the store's last operation at that moment.
  var storeSequence: UInt64
  /// Of the keyspace's monitor at that moment.
  package var commitCount: UInt64
}

extension Store {
  /// The value of a key as it is, and as it becomes.
  public nonisolated func values(forKey key: Key) -> ValueSequence {
    ValueSequence(keyspace: Keyspace(store: self, name: ""), key: key)
  }

  /// Nil when the store is closed.
  ///
  /// - Throws: `.suspended`, and as ``value(forKey:)``.
  func versionedValue(
    forKey key: Key, in keyspace: String
  ) async throws(StoreError) -> VersionedValue? {
    do throws(StoreError) { return try await openValue(forKey: key, in: keyspace) } catch {
      guard isClosed else { throw error }
      try throwRefusal()
      return nil
    }
  }

  private func openValue(
    forKey key: Key, in keyspace: String
  ) async throws(StoreError) -> VersionedValue? {
    try await checkOpen()
    var result = VersionedValue(
      storeSequence: engine?.log.lastSequence ?? 0,
      commitCount: observers.monitor(of: keyspace).commitCount)
    guard engine != nil, let id = engine!.keyspaces.id(of: keyspace) else { return result }
    _ = try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try engine.versionedValue(bytes, keyspace: id, into: &result)
      }
    }
    return result
  }
}

extension EngineState {
  fileprivate mutating func versionedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16, into result: inout VersionedValue
  ) throws(StoreError) {
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try log.table.find(key, keyspace, hash: hash, in: live.index) else { return }
    try log.table.verify(found.record, at: found.address)
    result.sequence = SequenceNumber(rawValue: found.record.header.sequence)
    result.value = try log.table.value(of: found.record, at: found.address)
  }
}

extension Keyspace {
  /// The value of a key as it is, and as it becomes. As ``Store/values(forKey:)``.
  public func values(forKey key: Key) -> ValueSequence { ValueSequence(keyspace: self, key: key) }
}
