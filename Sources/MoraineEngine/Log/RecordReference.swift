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
}
