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
  /// When it is to disappear, in milliseconds since 1970. What a delete says of it means nothing:
  /// it stays as long as an older record may be there.
  var expiryMilliseconds: UInt64? {
    header.kind == .put ? header.expiryMilliseconds(at: base) : nil
  }
}
