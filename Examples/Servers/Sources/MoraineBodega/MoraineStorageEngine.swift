import Foundation
import Moraine

/// A storage engine of Bodega that keeps its data in an ordered keyspace of a store.
///
/// ```swift
/// let store = try await Store.open(at: folder)
/// let engine = try MoraineStorageEngine(in: store, named: "notes") { error in
///   print("a read failed: \(error)")
/// }
/// ```
///
/// A value in the store is the time of the first write and the time of the last one, in
/// milliseconds since 1970 with eight bytes each, and then the data. The keys are in the order of
/// their UTF-8 bytes, of which a key has at most 511.
///
/// Bodega's reads cannot throw. A read that fails has the same answer as one that finds nothing,
/// and reports its error to the handler: a program that ignores it takes damage for absence.
public actor MoraineStorageEngine: StorageEngine {
  private let keyspace: Keyspace
  private let durability: Durability?
  private let clock: any StoreClock
  private let onReadError: @Sendable (any Error) -> Void

  /// Creates an engine. Reads and writes nothing.
  ///
  /// - Parameters:
  ///   - store: an open store. The engine does not close it.
  ///   - name: the name of the keyspace, which contains data of Bodega alone.
  ///   - durability: the state that a write has reached when its call returns; nil for the
  ///     durability of the store's configuration.
  ///   - clock: the clock of ``createdAt(key:)`` and ``updatedAt(key:)``.
  ///   - onReadError: receives the errors of reads. It is called on the engine's actor.
  /// - Throws: `.keyTooLarge` when the name has more than 255 bytes.
  public init(
    in store: Store, named name: String, durability: Durability? = nil,
    clock: any StoreClock = SystemStoreClock(),
    onReadError: @escaping @Sendable (any Error) -> Void
  ) throws(StoreError) {
    keyspace = try store.orderedKeyspace(named: name)
    self.durability = durability
    self.clock = clock
    self.onReadError = onReadError
  }

  /// Stores data under a key. An existing key keeps the time of its creation.
  public func write(_ data: Data, key: CacheKey) async throws {
    try await write([(key: key, data: data)])
  }

  /// Stores the data of all keys as one batch: a crash leaves all of them or none.
  public func write(_ dataAndKeys: [(key: CacheKey, data: Data)]) async throws {
    let (keyspace, now) = (keyspace, clock.milliseconds)
    try await keyspace.store.write(durability: durability) { batch in
      for (key, data) in dataAndKeys {
        let old = try batch.value(forKey: Key(key.value), in: keyspace).map(Item.init)
        let item = Item(created: old?.created ?? now, updated: now, data: data)
        try batch.set(item.bytes, forKey: Key(key.value), in: keyspace)
      }
    }
  }

  public func read(key: CacheKey) async -> Data? { await item(key)?.data }

  /// Returns the data of those keys that exist, in the order of the keys, as of one moment.
  public func read(keys: [CacheKey]) async -> [Data] {
    await readDataAndKeys(keys: keys).map(\.data)
  }

  /// Returns those keys that exist with their data, in the order of the keys, as of one moment.
  public func readDataAndKeys(keys: [CacheKey]) async -> [(key: CacheKey, data: Data)] {
    await reading([]) {
      let snapshot = try await keyspace.store.snapshot().keyspace(named: keyspace.name)
      let values = try snapshot.values(forKeys: keys.map { Key($0.value) })
      return try zip(keys, values).compactMap { key, value in
        try value.map { (key: key, data: try Item($0).data) }
      }
    }
  }

  public func readAllData() async -> [Data] { await readAllDataAndKeys().map(\.data) }

  /// Returns all keys with their data, in the order of the keys, as of one moment.
  public func readAllDataAndKeys() async -> [(key: CacheKey, data: Data)] {
    await reading([]) {
      try await keyspace.entries(limit: .max).entries.map {
        (key: CacheKey(verbatim: $0.key.description), data: try Item($0.value).data)
      }
    }
  }

  /// Removes a key and its data. A key that does not exist is no error.
  public func remove(key: CacheKey) async throws { try await remove(keys: [key]) }

  /// Removes the keys as one batch.
  public func remove(keys: [CacheKey]) async throws {
    let keyspace = keyspace
    try await keyspace.store.write(durability: durability) { batch in
      for key in keys { try batch.removeValue(forKey: Key(key.value), in: keyspace) }
    }
  }

  /// Removes all keys, in batches of at most a thousand.
  public func removeAllData() async throws {
    try await keyspace.removeAll(in: .all, durability: durability)
  }

  public func keyExists(_ key: CacheKey) async -> Bool {
    await reading(false) { try await keyspace.contains(Key(key.value)) }
  }

  public func keyCount() async -> Int { await reading(0) { try await keyspace.count() } }

  /// Returns all keys in their order. Reads no data.
  public func allKeys() async -> [CacheKey] {
    await reading([]) {
      try await keyspace.keys(limit: .max).map { CacheKey(verbatim: $0.description) }
    }
  }

  public func createdAt(key: CacheKey) async -> Date? { await item(key).map { $0.created.date } }

  public func updatedAt(key: CacheKey) async -> Date? { await item(key).map { $0.updated.date } }

  private func item(_ key: CacheKey) async -> Item? {
    await reading(nil) { try await keyspace.value(forKey: Key(key.value)).map(Item.init) }
  }

  /// Returns the result of the body. Reports its error, and returns the other result then.
  private func reading<Result>(
    _ failed: Result, _ body: () async throws -> Result
  ) async -> Result {
    do { return try await body() } catch {
      onReadError(error)
      return failed
    }
  }
}

/// A value of the keyspace.
private struct Item {
  private static let headerLength = 16

  /// The time of the first write, in milliseconds since 1970.
  let created: UInt64
  /// The time of the last write, in milliseconds since 1970.
  let updated: UInt64
  let data: Data

  init(created: UInt64, updated: UInt64, data: Data) {
    (self.created, self.updated, self.data) = (created, updated, data)
  }

  /// - Throws: `.decodingFailed` when the engine has not written the value.
  init(_ bytes: [UInt8]) throws(StoreError) {
    guard bytes.count >= Self.headerLength else {
      throw StoreError(
        .decodingFailed, "a value of \(bytes.count) bytes is too short for a storage engine")
    }
    created = Self.number(bytes[..<8])
    updated = Self.number(bytes[8..<Self.headerLength])
    data = Data(bytes[Self.headerLength...])
  }

  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(Self.headerLength + data.count)
    for number in [created, updated] {
      withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }
    bytes.append(contentsOf: data)
    return bytes
  }

  private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
    bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}

extension UInt64 {
  fileprivate var date: Date { Date(timeIntervalSince1970: Double(self) / 1000) }
}
