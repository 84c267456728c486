extension RecordHeader {
  /// Returns the header at `offset` if it looks like a record: its length fits, and its fields
  /// agree. It is for callers that search bytes for records.
  ///
  /// - Parameters:
  ///   - bytes: the segment's bytes, from its beginning.
  ///   - offset: a place in the segment.
  ///   - end: where records end, at most the count of the bytes.
  package static func candidate(
    in bytes: UnsafeRawBufferPointer, at offset: Int, before end: Int
  ) -> RecordHeader? {
    guard let base = bytes.baseAddress, offset >= 0, offset + fixedLength <= end else { return nil }
    let length = length(at: base + offset)
    guard length >= fixedLength, length <= min(end - offset, StoreLimits.recordLengthBytes) else {
      return nil
    }
    return parse(base + offset, length: length)
  }

  /// Returns whether the stored checksum matches the record's bytes at this offset.
  package func checksumMatches(
    in bytes: UnsafeRawBufferPointer, at offset: Int, seed: Checksum
  ) -> Bool {
    guard let base = bytes.baseAddress.map({ $0 + offset }) else { return false }
    return Self.checksum(of: base, length: length, at: UInt64(offset), seed: seed)
      == Self.storedChecksum(at: base)
  }
}
