import MoraineFormat
import MoraineStorage

extension EngineState {
  /// Returns the value of a key: the stored bytes, or a copy where the value must be decompressed
  /// or was read into a buffer that the next read reuses. The checksum is verified.
  mutating func storedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    guard let found = try visible(key, keyspace) else { return nil }
    try log.table.verify(found.record, at: found.address)
    let slot = found.address.slot
    if found.record.header.codec == .raw, log.table[slot].base != nil,
      let mapping = log.table.infos[slot].mapping
    {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try log.table.value(of: found.record, at: found.address))
  }

  /// Returns the value of a key, verified and decompressed.
  mutating func value(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    if live.trees.isOrdered(keyspace) { return try orderedValue(key, keyspace) }
    let hash = hash(key, keyspace)
    try validatePages(hash)
    guard let found = try log.table.find(key, keyspace, hash: hash, in: live.index) else {
      return nil
    }
    let record = found.record
    try log.table.verify(record, at: found.address)
    if record.hasExpired(at: now) { return nil }
    return try log.table.value(of: record, at: found.address)
  }
}

extension EngineState {
  /// Returns the number of a keyspace; nil when nothing was ever written to it.
  // A caller that reads `keyspaces` through the actor's optional state copies the table.
  func id(of keyspace: String) -> UInt16? { keyspaces.id(of: keyspace) }
}

extension EngineState {
  /// Returns the value of a key, verified and decompressed, and the number of the operation that
  /// has set it.
  mutating func versionedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> VersionedValue? {
    try expiringValue(key, keyspace: keyspace)?.value
  }

  /// Returns the same as ``versionedValue(_:keyspace:)``, and whether the entry expires.
  mutating func expiringValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> (value: VersionedValue, expires: Bool)? {
    guard let found = try visible(key, keyspace) else { return nil }
    let header = found.record.header
    try log.table.verify(found.record, at: found.address)
    let value = VersionedValue(
      value: try log.table.value(of: found.record, at: found.address),
      sequence: SequenceNumber(rawValue: header.sequence),
      expiryMilliseconds: found.record.expiryMilliseconds)
    return (value, header.hasExpiry)
  }

  /// Returns the value of a key, whether it has expired or not.
  mutating func valueEvenExpired(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    guard let found = try found(key, keyspace) else { return nil }
    try log.table.verify(found.record, at: found.address)
    return try log.table.value(of: found.record, at: found.address)
  }

  mutating func contains(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> Bool {
    try visible(key, keyspace) != nil
  }

  /// Returns the record of a key, unless the record has expired. Its checksum is not verified.
  @inline(__always)
  mutating func visible(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> FoundRecord? {
    guard let found = try found(key, keyspace),
      try !log.table.isHidden(found.record, at: found.address, now)
    else { return nil }
    return found
  }

  /// Returns the record of a key, whether it has expired or not. Its checksum is not verified.
  @inline(__always)
  mutating func found(
    _ key: UnsafeRawBufferPointer, _ keyspace: UInt16
  ) throws(StoreError) -> FoundRecord? {
    if live.trees.isOrdered(keyspace) {
      try validateNodes(key, keyspace, neighbours: false)
      return try log.table.find(key, keyspace, in: live.trees, live.trees.root(keyspace))
    }
    let hash = hash(key, keyspace)
    try validatePages(hash)
    return try log.table.find(key, keyspace, hash: hash, in: live.index).map {
      FoundRecord(record: $0.record, address: $0.address)
    }
  }
}

enum StoredValue {
  /// Bytes in a mapping, which the borrower keeps as long as it uses the bytes. The store may drop
  /// the segment while the bytes are borrowed: when the borrower calls the store again, and the
  /// store applies a compaction of another process.
  case inPlace(UnsafeRawBufferPointer, any FileMapping)
  case copy([UInt8])

  /// Calls the body with the bytes.
  func read<Result>(_ body: (RawSpan) throws -> Result) rethrows -> Result {
    switch self {
    case .inPlace(let bytes, let mapping):
      defer { withExtendedLifetime(mapping) {} }
      return try body(bytes.bytes)
    case .copy(let value): return try body(value.span.bytes)
    }
  }
}
