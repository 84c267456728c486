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
  /// The expiry of a put, in milliseconds since 1970; nil when it has none. Reserved: reads show
  /// the record whatever the time is, and so compaction keeps it.
  var expiryMilliseconds: UInt64? {
    header.kind == .put ? header.expiryMilliseconds(at: base) : nil
  }
}
