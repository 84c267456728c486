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
  let entry: IndexEntry
  let record: RecordReference

  @inline(__always)
  var address: Address { entry.address }

  /// The entry, with the facts about the record that are needed when another record replaces it.
  @inline(__always)
  var replaceable: ReplaceableEntry {
    ReplaceableEntry(
      entry: entry, length: record.header.length, sequence: record.header.sequence)
  }
}

/// An index entry that is about to name another record, or to be removed.
struct ReplaceableEntry {
  let entry: IndexEntry
  /// Length of the record that the entry names, in bytes.
  let length: Int
  /// Sequence number of that record.
  let sequence: UInt64

  @inline(__always)
  var address: Address { entry.address }
}
