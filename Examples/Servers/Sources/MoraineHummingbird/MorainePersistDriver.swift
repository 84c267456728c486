import Foundation
import Hummingbird
import Moraine

/// A persist driver of Hummingbird that keeps its keys and values in a keyspace of a store.
///
/// ```swift
/// let store = try await Store.open(at: folder)
/// let persist = MorainePersistDriver(in: try store.keyspace(named: "persist"), durability: .sync)
/// try await persist.create(key: token, value: session, expires: .seconds(1800))
/// ```
///
/// A key is stored as its UTF-8 bytes, a value as JSON. From the millisecond of its expiry on, no
/// driver of the store returns an entry, and ``create(key:value:expires:)`` can use its key again;
/// the store deletes the entry later. Several drivers may use one keyspace at the same time, also
/// in several processes of a shared store.
///
/// The driver does not own the store. The program opens the store before it creates the driver, and
/// closes the store when the application has ended.
public struct MorainePersistDriver: PersistDriver {
  /// The keyspace with the entries.
  public let keyspace: Keyspace
  /// Durability of every write of this driver; nil for the durability of the store's configuration.
  public let durability: Durability?
  private let clock: any StoreClock

  /// Creates a driver. Reads and writes nothing.
  ///
  /// - Parameters:
  ///   - keyspace: a keyspace that contains the entries of persist drivers alone. Its default
  ///     lifetime is that of entries which are created without `expires`.
  ///   - durability: the state that a write has reached when its call returns. With `.sync`, a
  ///     power failure loses no entry that was created, set or removed. Nil for the durability of
  ///     the store's configuration.
  ///   - clock: the clock of the store's configuration. ``getWithTTL(key:as:)`` compares an expiry
  ///     with it.
  public init(
    in keyspace: Keyspace, durability: Durability? = nil,
    clock: any StoreClock = SystemStoreClock()
  ) {
    self.keyspace = keyspace
    self.durability = durability
    self.clock = clock
  }

  /// Stores a value under a key that does not exist. Of several calls for one key, by any drivers
  /// of the store, one succeeds.
  ///
  /// - Parameter expires: the time after which the entry ends; nil for the default lifetime of the
  ///   keyspace.
  /// - Throws: `PersistError.duplicate` when the key exists and has not expired; `EncodingError`;
  ///   the errors of a write to the store.
  public func create(
    key: String, value: some Codable & Sendable, expires: Duration?
  ) async throws {
    let sequence = try await keyspace.set(
      Self.encode(value), forKey: Key(key), if: .absent, expiring: expires.map(Expiry.after),
      durability: durability)
    if sequence == nil { throw PersistError.duplicate }
  }

  /// Stores a value under a key, and replaces the value that the key had.
  ///
  /// - Parameter expires: the time after which the entry ends. Nil keeps the expiry of an existing
  ///   entry, and gives a new entry the default lifetime of the keyspace.
  /// - Throws: `EncodingError`; the errors of a write to the store; without `expires` also those
  ///   of a transaction.
  public func set(
    key: String, value: some Codable & Sendable, expires: Duration?
  ) async throws {
    let bytes = try Self.encode(value)
    if let expires {
      try await keyspace.set(
        bytes, forKey: Key(key), expiring: .after(expires), durability: durability)
      return
    }
    let (keyspace, key) = (keyspace, Key(key))
    // A batch could not read the expiry. The transaction is committed only if no other writer has
    // changed the entry since its beginning, so the expiry is that of the entry that is replaced.
    try await keyspace.store.transaction(retries: .max, durability: durability) { transaction in
      let exists = try transaction.contains(key, in: keyspace)
      let expiry = exists ? try await keyspace.expiry(forKey: key) : nil
      try transaction.set(bytes, forKey: key, in: keyspace, expiring: expiry)
    }
  }

  /// Returns the value of a key, or nil when the key does not exist or has expired.
  ///
  /// - Throws: `PersistError.invalidConversion` when the stored JSON cannot be decoded as the type;
  ///   the errors of reading the store.
  public func get<Object: Codable & Sendable>(
    key: String, as type: Object.Type
  ) async throws -> Object? {
    guard let bytes = try await keyspace.value(forKey: Key(key)) else { return nil }
    return try Self.decode(bytes, as: type)
  }

  /// Returns the value of a key and the time until the entry ends, which is nil for an entry that
  /// does not expire. Both belong to the same write: the call reads again when another writer has
  /// changed the entry in between.
  ///
  /// - Throws: the errors of ``get(key:as:)``, and `CancellationError`.
  public func getWithTTL<Object: Codable & Sendable>(
    key: String, as type: Object.Type
  ) async throws -> (object: Object, ttl: Duration?)? {
    let key = Key(key)
    while let seen = try await keyspace.versionedValue(forKey: key),
      let expiry = try await keyspace.expiry(forKey: key)
    {
      guard try await keyspace.versionedValue(forKey: key)?.sequence == seen.sequence else {
        try Task.checkCancellation()
        continue
      }
      let object = try Self.decode(seen.value, as: type)
      guard let end = expiry.milliseconds else { return (object, nil) }
      let now = clock.milliseconds
      return end > now ? (object, .milliseconds(Int64(clamping: end - now))) : nil
    }
    return nil
  }

  /// Removes a key and its value. A key that does not exist is no error.
  ///
  /// - Throws: the errors of a write to the store.
  public func remove(key: String) async throws {
    try await keyspace.removeValue(forKey: Key(key), durability: durability)
  }

  /// Waits until all writes of the store are on stable storage, whatever their durability. The
  /// store stays open. An application calls this at its end, if the driver is one of its services.
  ///
  /// - Throws: the errors of `Store.sync()`; `.closed` when the program has closed the store
  ///   before.
  public func shutdown() async throws { try await keyspace.store.sync() }

  private static func encode(_ value: some Encodable) throws -> [UInt8] {
    Array(try JSONEncoder().encode(value))
  }

  private static func decode<Object: Decodable>(
    _ bytes: [UInt8], as type: Object.Type
  ) throws -> Object {
    do { return try JSONDecoder().decode(type, from: Data(bytes)) } catch is DecodingError {
      throw PersistError.invalidConversion
    }
  }
}
