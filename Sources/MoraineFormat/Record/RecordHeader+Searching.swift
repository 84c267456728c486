extension RecordHeader {
  /// What looks like a record, for whoever searches bytes for one: its length fits, and its fields
  /// fit each other.
  ///
  /// - Parameters:
  ///   - bytes: the segment's, from its beginning.
  ///   - offset: a place in it.
  ///   - end: where records end, at most the count of the bytes.
  public static func candidate(
    in bytes: UnsafeRawBufferPointer, at offset: Int, before end: Int
  ) -> RecordHeader? {
    guard let base = bytes.baseAddress, offset >= 0, offset + fixedLength <= end else { return nil }
    let length = length(at: base + offset)
    guard length >= fixedLength, length <= min(end - offset, Limits.recordLengthBytes) else {
      return nil
    }
    return parse(base + offset, length: length)
  }

  /// Whether its checksum is that of its bytes at this place.
  public func checksumMatches(
    in bytes: UnsafeRawBufferPointer, at offset: Int, seed: Checksum
  ) -> Bool {
    guard let base = bytes.baseAddress.map({ $0 + offset }) else { return false }
    return Self.checksum(of: base, length: length, at: UInt64(offset), seed: seed)
      == Self.storedChecksum(at: base)
  }
}
