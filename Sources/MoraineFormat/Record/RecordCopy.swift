import CMoraineShims

/// A copy of a record for another segment: the same operation with the same sequence number.
///
/// The copy belongs to no batch and has no address of its older version, because the other records
/// of the batch may be gone, and the older version may have moved. All other fields stay.
package struct RecordCopy {
  private let base: UnsafeRawPointer
  private let header: RecordHeader
  /// The value as it is to be stored.
  package var stored: UnsafeRawBufferPointer
  package var codec: RecordCodec
  package var rawLength: Int

  /// - Parameter base: the record's first byte; `header` was read from there.
  package init(_ base: UnsafeRawPointer, _ header: RecordHeader) {
    self.base = base
    self.header = header
    stored = UnsafeRawBufferPointer(
      start: base + header.valueOffset, count: header.storedLength)
    codec = header.codec
    rawLength = header.rawLength
  }

  private var hadRawLength: Int { header.codec == .raw ? 0 : 4 }
  private var batchCountLength: Int { header.batch == .end ? 4 : 0 }
  /// The bytes of keyspace and expiry.
  private var kept: Range<Int> {
    let start = RecordHeader.fixedLength + hadRawLength + batchCountLength
    let keyspace = header.flags & RecordHeader.Flag.keyspace == 0 ? 0 : 2
    return start..<start + keyspace + (header.flags & RecordHeader.Flag.expiry == 0 ? 0 : 8)
  }
  /// The bytes after the previous address: the extension and the key.
  private var rest: Range<Int> {
    let previous = header.flags & RecordHeader.Flag.previous == 0 ? 0 : 8
    return kept.upperBound + previous..<header.valueOffset
  }

  /// The copy's length in bytes, without padding.
  package var length: Int {
    RecordHeader.fixedLength + (codec == .raw ? 0 : 4) + kept.count + rest.count + stored.count
  }

  /// Writes the copy.
  ///
  /// - Parameters:
  ///   - target: with room for ``length`` bytes.
  ///   - offset: the place of `target` in the segment.
  package func write(to target: UnsafeMutableRawPointer, at offset: UInt64, seed: Checksum) {
    let length = length
    let kindByte = header.kind.rawValue | codec.rawValue << 4
    let word = header.sequence | UInt64(kindByte) << 56
    target.storeBytes(of: UInt32(length).littleEndian, as: UInt32.self)
    target.storeBytes(of: word.littleEndian, toByteOffset: 8, as: UInt64.self)
    let flags = header.flags & ~RecordHeader.Flag.previous
    let lengths = UInt32(flags) | UInt32(header.keyLength) << 8
    target.storeBytes(of: lengths.littleEndian, toByteOffset: 16, as: UInt32.self)
    var position = RecordHeader.fixedLength
    if codec != .raw {
      let raw = UInt32(truncatingIfNeeded: rawLength)
      target.storeBytes(of: raw.littleEndian, toByteOffset: position, as: UInt32.self)
      position += 4
    }
    for part in [kept, rest] {
      (target + position).copyMemory(from: base + part.lowerBound, byteCount: part.count)
      position += part.count
    }
    if let start = stored.baseAddress {
      (target + position).copyMemory(from: start, byteCount: stored.count)
    }
    let checksum = RecordHeader.checksum(of: target, length: length, at: offset, seed: seed)
    target.storeBytes(of: checksum.littleEndian, toByteOffset: 4, as: UInt32.self)
  }
}

extension RecordHeader {
  /// Whether the record has a time at which it expires.
  @inlinable @inline(__always)
  public var hasExpiry: Bool { flags & Flag.expiry != 0 }

  /// Returns the time at which the record expires, in milliseconds since 1970; nil when it does not
  /// expire.
  ///
  /// - Parameter base: the record's first byte.
  package func expiryMilliseconds(at base: UnsafeRawPointer) -> UInt64? {
    guard flags & Flag.expiry != 0 else { return nil }
    let place =
      Self.fixedLength + (codec == .raw ? 0 : 4) + (batch == .end ? 4 : 0)
      + (flags & Flag.keyspace == 0 ? 0 : 2)
    return UInt64(littleEndian: base.loadUnaligned(fromByteOffset: place, as: UInt64.self))
  }
}
