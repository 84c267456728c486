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
    guard let found = try find(key, keyspace, hash: hash) else { return nil }
    try table.verify(found.record, at: found.address)
    if found.record.header.codec == .raw, table[found.address.slot].base != nil {
      return .inPlace(found.record.stored)
    }
    return .copy(try table.value(of: found.record, at: found.address))
  }

  /// The value of a key: its checksum verified, decompressed.
  mutating func value(
    _ key: UnsafeRawBufferPointer, keyspace: UInt16
  ) throws(StoreError) -> [UInt8]? {
    let hash = hash(key, keyspace)
    try admit(hash)
    guard let found = try find(key, keyspace, hash: hash) else { return nil }
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
    return try find(key, keyspace, hash: hash) != nil
  }
}

enum StoredValue {
  /// Valid while the segment is mapped.
  case inPlace(UnsafeRawBufferPointer)
  case copy([UInt8])
}

extension SegmentTable {
  /// The value of a record whose checksum was verified.
  func value(of record: RecordReference, at address: Address) throws(StoreError) -> [UInt8] {
    let header = record.header
    switch header.codec {
    case .raw:
      return makeBytes(header.storedLength) { $0.copyMemory(from: record.stored) }
    case .lz4:
      var isSound = false
      let value = makeBytes(header.rawLength) {
        isSound = Decompressor.decompress(record.stored, into: $0)
      }
      guard isSound else { throw damaged(address, "a compressed value does not decompress") }
      return value
    case .lz4Dictionary:
      var isSound = false
      let value = try withDictionary(for: address) { dictionary in
        var value: [UInt8] = []
        let isDone =
          header.rawLength <= DictionaryCache.valueBytes
          && dictionaries.decompress(record, dictionary, of: address.slot) {
            guard let bytes = $0 else { return }
            isSound = true
            value = makeBytes(bytes.count) { $0.copyMemory(from: bytes) }
          }
        if isDone { return value }
        return makeBytes(header.rawLength) {
          isSound = Decompressor.decompress(record.stored, into: $0, dictionary: dictionary)
        }
      }
      guard isSound else { throw damaged(address, "a compressed value does not decompress") }
      return value
    }
  }

  /// Calls the body with the dictionary of the segment that holds the address.
  @inline(__always)
  private func withDictionary(
    for address: Address, _ body: (UnsafeRawBufferPointer) -> [UInt8]
  ) throws(StoreError) -> [UInt8] {
    let slot = address.slot
    guard views[slot].dictionaryLength > 0 else {
      throw damaged(address, "a value needs a dictionary, and its segment has none")
    }
    return infos[slot].dictionary.withBytes(body)
  }
}

/// An array of so many bytes, which the body fills.
///
/// Short ones are zeroed first: that costs less than the array initializer for uninitialized memory,
/// which looks up generic metadata at run time.
@inline(__always)
private func makeBytes(
  _ count: Int, _ fill: (UnsafeMutableRawBufferPointer) -> Void
) -> [UInt8] {
  if count > 1024 {
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      fill(UnsafeMutableRawBufferPointer(buffer))
      filled = count
    }
  }
  var bytes = [UInt8](repeating: 0, count: count)
  bytes.withUnsafeMutableBytes { fill($0) }
  return bytes
}
