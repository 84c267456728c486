package import MoraineFormat

/// The value of one key: the current value, and then each later value that a call finds.
///
/// The sequence skips values between two calls: a slow reader gets the latest value, and no values
/// accumulate. The sequence ends when the store is closed or the task is cancelled.
public struct ValueSequence: AsyncSequence, Sendable {
  /// The bytes, or nil when the key does not exist.
  public typealias Element = [UInt8]?
  public typealias Failure = StoreError

  let keyspace: Keyspace
  let key: Key

  public func makeAsyncIterator() -> Iterator { Iterator(keyspace: keyspace, key: key) }

  /// Waits for the key to change. One task at a time may use an iterator.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate let keyspace: Keyspace
    fileprivate let key: Key
    /// The sequence number of the last value that was returned; nil before the first call.
    private var seen: SequenceNumber??
    private var seenChange: UInt64 = 0

    fileprivate init(keyspace: Keyspace, key: Key) {
      self.keyspace = keyspace
      self.key = key
    }

    /// - Throws: the errors of ``Store/value(forKey:)``.
    public mutating func next(
      isolation actor: isolated (any Actor)?
    ) async throws(StoreError) -> Element? {
      let store = keyspace.store
      while !Task.isCancelled {
        try await store.joinOthers()
        let answer: ObservedValue?
        do throws(StoreError) {
          answer = try await store.observedValue(forKey: key, in: keyspace.name)
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
        guard try await store.waitForChange(after: seenChange) else { return nil }
      }
      return nil
    }
  }
}

/// A value, its sequence number, and the state of the store at that moment.
package struct ObservedValue: Sendable {
  /// Nil when the key does not exist.
  package var value: [UInt8]?
  package var sequence: SequenceNumber?
  /// Whether the value expires.
  package var expires = false
  /// The time at which the value ends.
  package var expiry = Expiry.never
  /// Sequence number of the store's last operation at that moment.
  package var storeSequence: UInt64
  /// The monitor's ``ChangeMonitor/commitCount`` at that moment.
  package var commitCount: UInt64
}

extension Store {
  /// Returns the value of a key, and then its later values.
  public nonisolated func values(forKey key: Key) -> ValueSequence {
    ValueSequence(keyspace: Keyspace(store: self, name: ""), key: key)
  }

  /// Returns the value of a key with its sequence number; nil when the store is closed.
  ///
  /// - Throws: `.suspended`, and the errors of ``value(forKey:)``.
  func observedValue(
    forKey key: Key, in keyspace: String
  ) async throws(StoreError) -> ObservedValue? {
    do throws(StoreError) { return try await openValue(forKey: key, in: keyspace) } catch {
      guard isClosed else { throw error }
      try throwRefusal()
      return nil
    }
  }

  private func openValue(
    forKey key: Key, in keyspace: String
  ) async throws(StoreError) -> ObservedValue? {
    try await checkOpen()
    var result = ObservedValue(
      storeSequence: engine?.log.lastSequence ?? 0,
      commitCount: observers.monitor(of: keyspace).commitCount)
    guard let id = id(of: keyspace) else { return result }
    _ = try await reading { (engine) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        guard let (found, expires) = try engine.expiringValue(bytes, keyspace: id) else { return }
        (result.value, result.sequence) = (found.value, found.sequence)
        (result.expires, result.expiry) = (expires, found.expiry)
      }
    }
    return result
  }
}

extension Keyspace {
  /// Returns the value of a key, and then its later values, like ``Store/values(forKey:)``.
  public func values(forKey key: Key) -> ValueSequence { ValueSequence(keyspace: self, key: key) }
}
