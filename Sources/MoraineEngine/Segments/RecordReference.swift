import MoraineFormat

/// A record in memory.
struct RecordReference {
  let base: UnsafeRawPointer
  let header: RecordHeader

  @inline(__always)
  var key: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base + header.keyOffset, count: header.keyLength)
  }
  @inline(__always)
  var stored: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: base + header.valueOffset, count: header.storedLength)
  }
  /// Expiry of a put, in milliseconds since 1970; nil when the put has none. The field is reserved:
  /// reads return the record whatever the time is, and so compaction keeps it.
  var expiryMilliseconds: UInt64? {
    header.kind == .put ? header.expiryMilliseconds(at: base) : nil
  }
}

/// An index entry, and the record that it names. The bytes are valid until the next read.
struct IndexHit {
  let slot: UnsafeMutablePointer<UInt64>
  let record: RecordReference

  @inline(__always)
  var address: Address { Address(rawValue: slot.pointee & Address.mask) }

  /// The facts about the record that are needed when another record replaces it.
  @inline(__always)
  var entry: IndexEntry {
    IndexEntry(slot: slot, length: record.header.length, sequence: record.header.sequence)
  }
}

/// An index entry that is about to name another record, or to be removed.
struct IndexEntry {
  let slot: UnsafeMutablePointer<UInt64>
  let length: Int
  let sequence: UInt64

  @inline(__always)
  var address: Address { Address(rawValue: slot.pointee & Address.mask) }
}
