import MoraineFormat
import MoraineStorage

extension EngineState {
  /// The value of a key where it lies, or a copy where it must be decompressed or was read into a
  /// buffer that the next read uses again. Its checksum is verified.
  mutating func storedValue(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> StoredValue? {
    let hash = hash(key, keyspace)
    try admit(hash)
    guard let found = try table.find(key, keyspace, hash: hash, in: index) else { return nil }
    try table.verify(found.record, at: found.address)
    let slot = found.address.slot
    if found.record.header.codec == .raw, table[slot].base != nil,
      let mapping = table.infos[slot].mapping
    {
      return .inPlace(found.record.stored, mapping)
    }
    return .copy(try table.value(of: found.record, at: found.address))
  }

  /// The value of a key: its checksum verified, decompressed.
  mutating func value(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    let hash = hash(key, keyspace)
    try admit(hash)
    guard let found = try table.find(key, keyspace, hash: hash, in: index) else { return nil }
    let record = found.record
    try table.verify(record, at: found.address)
    return try table.value(of: record, at: found.address)
  }
}

extension EngineState {
  mutating func contains(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> Bool {
    let hash = hash(key, keyspace)
    try admit(hash)
    return try table.find(key, keyspace, hash: hash, in: index) != nil
  }
}

enum StoredValue {
  /// Bytes in a mapping, which the borrower keeps as long as it uses them: the store may drop the
  /// segment while the bytes are lent, when the borrower calls the store again and the store
  /// applies what another process has compacted.
  case inPlace(UnsafeRawBufferPointer, any FileMapping)
  case copy([UInt8])
}
