import MoraineFormat
import MoraineStorage

extension RecordSource where Self: ~Copyable {
  /// The value of a record whose checksum was verified.
  @inline(__always)
  func value(of record: RecordReference, at address: Address) throws(StoreError) -> [UInt8] {
    let header = record.header
    switch header.codec {
    case .raw:
      return [UInt8](record.stored)
    case .lz4:
      var isSound = false
      let value = makeBytes(header.rawLength) {
        isSound = Decompressor.decompress(record.stored, into: $0)
      }
      guard isSound else { throw undecompressable(address) }
      return value
    case .lz4Dictionary:
      guard views[address.slot].dictionaryLength > 0 else {
        throw damaged(address, "a value needs a dictionary, and its segment has none")
      }
      return try valueWithDictionary(record, at: address)
    }
  }

  /// The value of a record whose checksum was verified: where it lies, or in the buffer. Valid
  /// while the segment is mapped and the buffer not used again.
  @inline(__always)
  func lentValue(
    of record: RecordReference, at address: Address, _ scratch: ScratchBuffer
  ) throws(StoreError) -> UnsafeRawBufferPointer {
    let codec = record.header.codec
    if codec == .raw { return record.stored }
    let target = scratch.reserve(record.header.rawLength)
    let isSound =
      codec == .lz4
      ? Decompressor.decompress(record.stored, into: target)
      : dictionary(of: address.slot).withBytes {
        Decompressor.decompress(record.stored, into: target, dictionary: $0)
      }
    guard isSound else { throw undecompressable(address) }
    return UnsafeRawBufferPointer(target)
  }

  func undecompressable(_ address: Address) -> StoreError {
    damaged(address, "a compressed value does not decompress")
  }

  /// The value of a record, decompressed with a dictionary that is used once.
  func value(
    of record: RecordReference, at address: Address, dictionary: [UInt8]
  ) throws(StoreError) -> [UInt8] {
    var isSound = false
    let value = dictionary.withBytes { dictionary in
      makeBytes(record.header.rawLength) {
        isSound = Decompressor.decompress(record.stored, into: $0, dictionary: dictionary)
      }
    }
    guard isSound else { throw undecompressable(address) }
    return value
  }
}

extension SegmentTable {
  func valueWithDictionary(
    _ record: RecordReference, at address: Address
  ) throws(StoreError) -> [UInt8] {
    let slot = address.slot
    guard record.header.rawLength <= DictionaryCache.valueBytes else {
      return try value(of: record, at: address, dictionary: infos[slot].dictionary)
    }
    var value: [UInt8]?
    let hasPlace = infos[slot].dictionary.withBytes { dictionary in
      dictionaries.decompress(record, dictionary, of: slot) {
        value = $0.map { [UInt8]($0) }
      }
    }
    guard hasPlace else {
      return try self.value(of: record, at: address, dictionary: infos[slot].dictionary)
    }
    guard let value else { throw undecompressable(address) }
    return value
  }
}

/// An array of so many bytes, which the body fills.
///
/// Short ones are made on the stack and copied: that costs less than the array initializers for
/// uninitialized or repeated elements, which look up generic metadata at run time.
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
  return withUnsafeTemporaryAllocation(byteCount: count, alignment: 8) { buffer in
    fill(buffer)
    return [UInt8](UnsafeRawBufferPointer(buffer))
  }
}
