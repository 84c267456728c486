import MoraineFormat
import MoraineStorage

extension SegmentTable {
  func fileName(_ slot: Int) -> String { infos[slot].number.fileName }

  func dictionary(of slot: Int) -> [UInt8] { infos[slot].dictionary }

  /// Lends a file to reads of a slot, in place of opening it by name.
  func lend(_ file: any StorageFile, for slot: Int) { files.keep(file, for: slot) }

  func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
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

  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64 {
    let record = try record(at: address)
    try verify(record, at: address)
    return KeyHash.hash(record.key, keyspace: record.header.keyspace, with: hashKey)
  }
}
