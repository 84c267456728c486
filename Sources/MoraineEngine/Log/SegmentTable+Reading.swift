import MoraineFormat
import MoraineStorage

extension SegmentTable {
  func fileName(_ slot: Int) -> String { infos[slot].number.fileName }

  /// Lends a file to reads of a slot, in place of opening it by name.
  func lend(_ file: any StorageFile, for slot: Int) { files.keep(file, for: slot) }

  /// The record at an address, its fields checked, its checksum not yet. Valid until the next call.
  ///
  /// - Throws: `.corrupted`, `.newerFormat`, `.io`.
  @inline(__always)
  func record(at address: Address) throws(StoreError) -> RecordReference {
    let slot = address.slot
    guard slot < count else { throw damaged(address, "an index entry names no segment") }
    let offset = address.offset
    guard let base = views[slot].base else { return try recordFromFile(at: address) }
    let available = views[slot].end &- offset
    guard available >= RecordHeader.fixedLength else {
      throw damaged(address, "a record lies beyond the segment's end")
    }
    let start = UnsafeRawPointer(base + offset)
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available else {
      throw damaged(address, "a record has the impossible length \(length)")
    }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw unreadable(address, start, length)
    }
    return RecordReference(base: start, header: header)
  }

  /// Throws unless the record's bytes are what was written.
  @inline(__always)
  func verify(_ record: RecordReference, at address: Address) throws(StoreError) {
    let checksum = RecordHeader.checksum(
      of: record.base, length: record.header.length, at: UInt64(address.offset),
      seed: views[address.slot].seed)
    guard checksum == RecordHeader.storedChecksum(at: record.base) else {
      throw damaged(address, "a record's checksum does not match")
    }
  }

  private func recordFromFile(at address: Address) throws(StoreError) -> RecordReference {
    let available = views[address.slot].end - address.offset
    guard available >= RecordHeader.fixedLength else {
      throw damaged(address, "a record lies beyond the segment's end")
    }
    // Most records are short: one read fetches them whole.
    var start = try load(address, count: min(available, 1024))
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available else {
      throw damaged(address, "a record has the impossible length \(length)")
    }
    if length > 1024 { start = try load(address, count: length) }
    guard let header = RecordHeader.parse(start, length: length) else {
      throw unreadable(address, start, length)
    }
    return RecordReference(base: start, header: header)
  }

  private func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
    let target = scratch.reserve(count)
    let file = try files.file(for: address.slot, named: fileName(address.slot))
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(address.offset))
    }
    guard got == count, let base = target.baseAddress else {
      throw damaged(address, "the file ends before its records do")
    }
    return UnsafeRawPointer(base)
  }

  /// The first bytes of a segment; valid until the next call.
  func bytes(of slot: Int, count: Int) throws(StoreError) -> UnsafeRawBufferPointer {
    let start: UnsafeRawPointer
    if let base = views[slot].base {
      start = UnsafeRawPointer(base)
    } else {
      start = try load(Address(slot: slot, offset: 0), count: count)
    }
    return UnsafeRawBufferPointer(start: start, count: count)
  }

  private func unreadable(
    _ address: Address, _ start: UnsafeRawPointer, _ length: Int
  ) -> StoreError {
    let checksum = RecordHeader.checksum(
      of: start, length: length, at: UInt64(address.offset), seed: views[address.slot].seed)
    let isSound = checksum == RecordHeader.storedChecksum(at: start)
    let error: FormatError =
      isSound
      ? FormatError(newer: "a record uses something unknown", at: UInt64(address.offset))
      : FormatError("a record's fields contradict each other", at: UInt64(address.offset))
    return StoreError(error, file: fileName(address.slot))
  }

  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64 {
    let record = try record(at: address)
    try verify(record, at: address)
    return KeyHash.hash(record.key, keyspace: record.header.keyspace, with: hashKey)
  }

  func damaged(_ address: Address, _ what: String) -> StoreError {
    let name = address.slot < count ? fileName(address.slot) : "index"
    return .corrupted(what, name, at: address.offset)
  }
}
