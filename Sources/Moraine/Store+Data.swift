public import Foundation
public import MoraineEngine

// The engine knows no Foundation: its values are arrays of bytes. These calls take and return
// `Data`, and copy the bytes once. Where an argument can be both, such as
// `.init(repeating:count:)`, it is an array.

extension Key {
  /// Creates a key of the bytes of a UUID, 16 in number and in its order. UUIDs of version 7 are
  /// then in the order of their time.
  public init(_ id: UUID) {
    self.init(withUnsafeBytes(of: id.uuid) { Array($0) })
  }

  /// The bytes of the key.
  public var data: Data { Data(bytes) }
}

extension Store.Entry {
  /// The value, as `Data`.
  public var data: Data { Data(value) }
}

extension VersionedValue {
  /// The value, as `Data`.
  public var data: Data { Data(value) }
}

extension Store {
  /// Stores a value under a key, like
  /// ``/MoraineEngine/Store/set(_:forKey:durability:)``.
  @discardableResult
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await set([UInt8](value), forKey: key, durability: durability)
  }

  /// Stores a value that expires, like
  /// ``/MoraineEngine/Store/set(_:forKey:expiring:durability:)``.
  @discardableResult
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, expiring expiry: Expiry, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await set([UInt8](value), forKey: key, expiring: expiry, durability: durability)
  }

  /// Stores a value if a condition holds, like
  /// ``/MoraineEngine/Store/set(_:forKey:if:expiring:durability:)``.
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, if condition: WriteCondition,
    expiring expiry: Expiry = .never, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await set(
      [UInt8](value), forKey: key, if: condition, expiring: expiry, durability: durability)
  }

  /// Returns the value of a key, or nil when the key does not exist, like
  /// ``/MoraineEngine/Store/value(forKey:)``.
  public nonisolated(nonsending) func data(
    forKey key: Key
  ) async throws(StoreError) -> Data? {
    try await value(forKey: key).map { Data($0) }
  }
}

extension Keyspace {
  /// Stores a value under a key, like
  /// ``/MoraineEngine/Keyspace/set(_:forKey:durability:)``.
  @discardableResult
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await set([UInt8](value), forKey: key, durability: durability)
  }

  /// Stores a value that expires, like
  /// ``/MoraineEngine/Keyspace/set(_:forKey:expiring:durability:)``.
  @discardableResult
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, expiring expiry: Expiry, durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber {
    try await set([UInt8](value), forKey: key, expiring: expiry, durability: durability)
  }

  /// Stores a value if a condition holds, like
  /// ``/MoraineEngine/Keyspace/set(_:forKey:if:expiring:durability:)``.
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, if condition: WriteCondition, expiring expiry: Expiry? = nil,
    durability: Durability? = nil
  ) async throws(StoreError) -> SequenceNumber? {
    try await set(
      [UInt8](value), forKey: key, if: condition, expiring: expiry, durability: durability)
  }

  /// Returns the value of a key, or nil when the key does not exist, like
  /// ``/MoraineEngine/Keyspace/value(forKey:)``.
  public nonisolated(nonsending) func data(
    forKey key: Key
  ) async throws(StoreError) -> Data? {
    try await value(forKey: key).map { Data($0) }
  }
}

extension Store.Snapshot {
  /// Returns the value of a key, or nil when the key does not exist, like
  /// ``/MoraineEngine/Store/Snapshot/value(forKey:)``.
  public func data(forKey key: Key) throws(StoreError) -> Data? {
    try value(forKey: key).map { Data($0) }
  }
}

extension Store.Reader {
  /// Returns the value of a key, or nil when the key does not exist, like
  /// ``/MoraineEngine/Store/Reader/value(forKey:)``.
  public func data(forKey key: Key) throws(StoreError) -> Data? {
    try value(forKey: key).map { Data($0) }
  }
}

extension WriteBatch {
  /// Sets a value, like ``/MoraineEngine/WriteBatch/set(_:forKey:)``.
  @_disfavoredOverload
  public mutating func set(_ value: Data, forKey key: Key) throws(StoreError) {
    try set([UInt8](value), forKey: key)
  }

  /// Sets a value in a keyspace, like ``/MoraineEngine/WriteBatch/set(_:forKey:in:)``.
  @_disfavoredOverload
  public mutating func set(
    _ value: Data, forKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) {
    try set([UInt8](value), forKey: key, in: keyspace)
  }

  /// Returns the value as this batch leaves it, like
  /// ``/MoraineEngine/WriteBatch/value(forKey:)``.
  public mutating func data(forKey key: Key) throws(StoreError) -> Data? {
    try value(forKey: key).map { Data($0) }
  }

  /// Returns the value of a keyspace as this batch leaves it, like
  /// ``/MoraineEngine/WriteBatch/value(forKey:in:)``.
  public mutating func data(
    forKey key: Key, in keyspace: Keyspace
  ) throws(StoreError) -> Data? {
    try value(forKey: key, in: keyspace).map { Data($0) }
  }
}

extension Store.Transaction {
  /// Stores a value under a key, like
  /// ``/MoraineEngine/Store/Transaction/set(_:forKey:in:expiring:)``.
  @_disfavoredOverload
  public func set(
    _ value: Data, forKey key: Key, in keyspace: Keyspace? = nil, expiring expiry: Expiry? = nil
  ) throws(StoreError) {
    try set([UInt8](value), forKey: key, in: keyspace, expiring: expiry)
  }

  /// Returns the value of a key, or nil when the key does not exist, like
  /// ``/MoraineEngine/Store/Transaction/value(forKey:in:isTracked:)``.
  public func data(
    forKey key: Key, in keyspace: Keyspace? = nil, isTracked: Bool = true
  ) throws(StoreError) -> Data? {
    try value(forKey: key, in: keyspace, isTracked: isTracked).map { Data($0) }
  }
}

extension Store.WriteQueue {
  /// Queues a put, like ``/MoraineEngine/Store/WriteQueue/set(_:forKey:expiring:)``.
  @_disfavoredOverload
  public nonisolated(nonsending) func set(
    _ value: Data, forKey key: Key, expiring expiry: Expiry? = nil
  ) async throws(StoreError) {
    try await set([UInt8](value), forKey: key, expiring: expiry)
  }

  /// Returns the value of a key as the queued writes leave it, like
  /// ``/MoraineEngine/Store/WriteQueue/value(forKey:)``.
  public func data(forKey key: Key) throws(StoreError) -> Data? {
    try value(forKey: key).map { Data($0) }
  }
}
