public import CMoraineShims

/// A put or delete that is not yet in a segment: its content without its place.
@frozen
public struct RecordDraft {
  public var sequence: UInt64
  public var kind: RecordKind
  public var codec: RecordCodec = .raw
  public var batch: BatchRole = .alone
  public var batchCount: UInt32 = 0
  public var keyspace: UInt16 = 0
  /// Time at which the record expires, in milliseconds since 1970; 0 for never.
  public var expiryMilliseconds: UInt64 = 0
  public var rawLength: Int = 0
  public var key: UnsafeRawBufferPointer
  public var stored: UnsafeRawBufferPointer

  @inlinable @inline(__always)
  public init(
    sequence: UInt64, kind: RecordKind, key: UnsafeRawBufferPointer,
    stored: UnsafeRawBufferPointer
  ) {
    self.sequence = sequence
    self.kind = kind
    self.key = key
    self.stored = stored
  }

  /// Creates a record that sets or removes a key.
  ///
  /// - Parameters:
  ///   - value: the value; empty for a delete.
  ///   - compressed: the compressed value; nil for a value that is stored as it is.
  @inlinable @inline(__always)
  public init(
    sequence: UInt64, kind: RecordKind, keyspace: UInt16, key: UnsafeRawBufferPointer,
    value: UnsafeRawBufferPointer, compressed: UnsafeRawBufferPointer?
  ) {
    self.init(sequence: sequence, kind: kind, key: key, stored: value)
    self.keyspace = keyspace
    if let compressed {
      codec = .lz4
      rawLength = value.count
      stored = compressed
    }
  }

  @inlinable @inline(__always)
  public var length: Int {
    RecordHeader.fixedLength &+ (codec == .raw ? 0 : 4) &+ (batch == .end ? 4 : 0)
      &+ (keyspace == 0 ? 0 : 2) &+ (expiryMilliseconds == 0 ? 0 : 8) &+ key.count &+ stored.count
  }

  /// Writes the record at `target`. It writes the length prefix last, so that an interrupted write
  /// reads as "no record here".
  ///
  /// - Parameters:
  ///   - target: 4-byte aligned, with room for ``length`` bytes rounded up to 4, all zero.
  ///   - offset: the place of `target` in the segment.
  /// - Complexity: O(key + value).
  @inlinable @inline(__always)
  public func write(to target: UnsafeMutableRawPointer, at offset: UInt64, seed: Checksum) {
    let length = self.length
    let position = writeFields(to: target)
    if let base = stored.baseAddress {
      (target + position).copyMemory(from: base, byteCount: stored.count)
    }
    let checksum = RecordHeader.checksum(of: target, length: length, at: offset, seed: seed)
    target.storeBytes(of: checksum.littleEndian, toByteOffset: 4, as: UInt32.self)
    moraine_store_release_u32(target, UInt32(truncatingIfNeeded: length).littleEndian)
  }

  /// Writes the fields between the checksum and the value.
  ///
  /// - Returns: where the value begins.
  @inlinable @inline(__always)
  func writeFields(to target: UnsafeMutableRawPointer) -> Int {
    let kindByte = kind.rawValue | codec.rawValue &<< 4 | batch.rawValue &<< 6
    let word = sequence | UInt64(kindByte) &<< 56
    target.storeBytes(of: word.littleEndian, toByteOffset: 8, as: UInt64.self)
    var flags: UInt8 = keyspace == 0 ? 0 : RecordHeader.Flag.keyspace
    if expiryMilliseconds != 0 { flags |= RecordHeader.Flag.expiry }
    let lengths = UInt32(flags) | UInt32(truncatingIfNeeded: key.count) &<< 8
    target.storeBytes(of: lengths.littleEndian, toByteOffset: 16, as: UInt32.self)
    var position = RecordHeader.fixedLength
    if codec != .raw {
      let raw = UInt32(truncatingIfNeeded: rawLength)
      target.storeBytes(of: raw.littleEndian, toByteOffset: position, as: UInt32.self)
      position &+= 4
    }
    if batch == .end {
      target.storeBytes(of: batchCount.littleEndian, toByteOffset: position, as: UInt32.self)
      position &+= 4
    }
    if keyspace != 0 {
      target.storeBytes(of: keyspace.littleEndian, toByteOffset: position, as: UInt16.self)
      position &+= 2
    }
    if expiryMilliseconds != 0 {
      target.storeBytes(
        of: expiryMilliseconds.littleEndian, toByteOffset: position, as: UInt64.self)
      position &+= 8
    }
    if let base = key.baseAddress {
      (target + position).copyMemory(from: base, byteCount: key.count)
      position &+= key.count
    }
    return position
  }

  /// Returns the bytes of the record before the value, with the checksum of the whole record. It is
  /// for a value that is written separately, because a copy of it would take too much memory.
  ///
  /// - Parameter offset: the place of the record in the segment.
  /// - Complexity: O(key + value).
  package func encodedHead(at offset: UInt64, seed: Checksum) -> [UInt8] {
    let length = length
    var head = [UInt8](repeating: 0, count: length - stored.count)
    head.withUnsafeMutableBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      _ = writeFields(to: base)
      var checksum = Checksum(
        moraine_crc32c_place(
          seed.value, offset, UInt32(truncatingIfNeeded: length), base + 8, bytes.count - 8))
      checksum.update(stored)
      base.storeBytes(of: UInt32(truncatingIfNeeded: length).littleEndian, as: UInt32.self)
      base.storeBytes(of: checksum.value.littleEndian, toByteOffset: 4, as: UInt32.self)
    }
    return head
  }
}
