public import CMoraineShims

// What the engine does for each record is public, and not package, in this module: the compiler
// (Swift 6.3) inlines no package declaration into another module, whatever its attributes are. A
// call for each field of a record costs 7 % of a get. No product exports these names.

/// The kind of a record.
public enum RecordKind: UInt8, Sendable {
  case put = 1
  case delete = 2
  case syncMark = 3
  case footer = 4

  /// What a record does to the value of its key.
  public enum Effect: Sendable {
    case sets
    case removes
    /// The record has no key: it describes the log.
    case none
  }

  /// What records of this kind do. Code that applies, keeps or copies records asks for the effect
  /// and not for the kind.
  @inlinable @inline(__always)
  public var effect: Effect {
    switch self {
    case .put: .sets
    case .delete: .removes
    case .syncMark, .footer: .none
    }
  }

  /// Whether the record has a key and a sequence number of its own.
  @inlinable @inline(__always)
  public var isOperation: Bool { effect != .none }
}

/// How a record's value is stored.
public enum RecordCodec: UInt8, Sendable {
  case raw = 0
  case lz4 = 1
  case lz4Dictionary = 2
}

/// A record's part in an atomic batch.
public enum BatchRole: UInt8, Sendable {
  case alone = 0
  case more = 1
  case end = 2
}

/// The fixed and optional fields before a record's key. Layout: `FileFormat.md`, "Record".
///
/// ```
///  0        4        8                    15   16   17        20
///  +--------+--------+--------------------+----+----+---------+----------+-----+-------+
///  | length | crc32c | sequence (56 bits) |kind|flag|keyLength| optional | key | value |
///  +--------+--------+--------------------+----+----+---------+----------+-----+-------+
/// ```
@frozen
public struct RecordHeader: Sendable {
  @inlinable public static var fixedLength: Int { 20 }

  public enum Flag {
    // Another module reads a stored property by a call.
    @inlinable public static var keyspace: UInt8 { 1 << 0 }
    @inlinable public static var expiry: UInt8 { 1 << 1 }
    @inlinable public static var previous: UInt8 { 1 << 2 }
    @inlinable public static var received: UInt8 { 1 << 3 }
    @inlinable public static var `extension`: UInt8 { 1 << 4 }
    @inlinable public static var mustUnderstand: UInt8 { 1 << 5 }
    @inlinable public static var unknown: UInt8 { 0b1100_0000 }
  }

  public var length: Int
  public var sequence: UInt64
  public var kind: RecordKind
  public var codec: RecordCodec
  public var batch: BatchRole
  public var flags: UInt8
  public var keyspace: UInt16
  public var rawLength: Int
  public var batchCount: Int
  public var keyOffset: Int
  public var keyLength: Int

  @inlinable @inline(__always)
  public var valueOffset: Int { keyOffset &+ keyLength }
  @inlinable @inline(__always)
  public var storedLength: Int { length &- keyOffset &- keyLength }

  @inlinable @inline(__always)
  init(
    length: Int, sequence: UInt64, kind: RecordKind, codec: RecordCodec, batch: BatchRole,
    flags: UInt8, keyspace: UInt16, rawLength: Int, batchCount: Int, keyOffset: Int, keyLength: Int
  ) {
    self.length = length
    self.sequence = sequence
    self.kind = kind
    self.codec = codec
    self.batch = batch
    self.flags = flags
    self.keyspace = keyspace
    self.rawLength = rawLength
    self.batchCount = batchCount
    self.keyOffset = keyOffset
    self.keyLength = keyLength
  }
}

extension RecordHeader {
  /// Returns the length prefix at `base`, where at least four bytes are readable.
  @inlinable @inline(__always)
  public static func length(at base: UnsafeRawPointer) -> Int {
    Int(UInt32(littleEndian: base.loadUnaligned(as: UInt32.self)))
  }

  /// Returns the checksum of a record with these bytes at this offset.
  ///
  /// - Parameter length: the record's length, at least 20; that many bytes are readable.
  @inlinable @inline(__always)
  public static func checksum(
    of base: UnsafeRawPointer, length: Int, at offset: UInt64, seed: Checksum
  ) -> UInt32 {
    moraine_crc32c_place(
      seed.value, offset, UInt32(truncatingIfNeeded: length), base + 8, length &- 8)
  }

  @inlinable @inline(__always)
  public static func storedChecksum(at base: UnsafeRawPointer) -> UInt32 {
    UInt32(littleEndian: base.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
  }

  /// Returns whether the record at `base` has the kind of a put. At least 20 bytes are readable
  /// there.
  @inlinable @inline(__always)
  public static func isPut(_ base: UnsafeRawPointer) -> Bool {
    base.load(fromByteOffset: 15, as: UInt8.self) & 15 == RecordKind.put.rawValue
  }

  /// Reads the fields, and checks each against the others and against the limits.
  ///
  /// - Parameters:
  ///   - base: the record's first byte; its length prefix was read and bounded before.
  ///   - length: that prefix, at least 20; that many bytes are readable.
  /// - Returns: nil when the fields cannot be those of a record of this version. The checksum then
  ///   shows whether the record is damaged or newer.
  @inlinable @inline(__always)
  public static func parse(_ base: UnsafeRawPointer, length: Int) -> RecordHeader? {
    let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    let lengths = UInt32(littleEndian: base.loadUnaligned(fromByteOffset: 16, as: UInt32.self))
    let kindByte = UInt8(truncatingIfNeeded: word &>> 56)
    // Nearly all records: outside a batch, without optional fields, raw or compressed.
    let isCompressed = kindByte &>> 4 != 0
    guard let codec = RecordCodec(rawValue: kindByte &>> 4),
      UInt8(truncatingIfNeeded: lengths) == 0, let kind = RecordKind(rawValue: kindByte & 15)
    else { return parseOptionalFields(base, length: length) }
    var header = RecordHeader(
      length: length, sequence: word & 0x00FF_FFFF_FFFF_FFFF, kind: kind,
      codec: codec, batch: .alone, flags: 0, keyspace: 0, rawLength: 0,
      batchCount: 0, keyOffset: fixedLength, keyLength: Int(lengths &>> 8))
    if isCompressed {
      guard length >= fixedLength &+ 4 else { return nil }
      header.keyOffset = fixedLength &+ 4
      header.rawLength = Int(
        UInt32(littleEndian: base.loadUnaligned(fromByteOffset: fixedLength, as: UInt32.self)))
    } else {
      header.rawLength = header.storedLength
    }
    return header.isSound ? header : nil
  }

  /// Reads the fields of a put of a keyspace that has a name.
  ///
  /// - Returns: nil for each record with other optional fields, and for those that
  ///   ``parse(_:length:)`` refuses.
  @inlinable @inline(__always)
  public static func parseNamedPut(_ base: UnsafeRawPointer, length: Int) -> RecordHeader? {
    let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    let lengths = UInt32(littleEndian: base.loadUnaligned(fromByteOffset: 16, as: UInt32.self))
    let kindByte = UInt8(truncatingIfNeeded: word &>> 56)
    // The highest bit is not set: the record is not the last one of a batch.
    guard kindByte & 0b1000_1111 == RecordKind.put.rawValue,
      UInt8(truncatingIfNeeded: lengths) == Flag.keyspace,
      let codec = RecordCodec(rawValue: (kindByte &>> 4) & 3),
      // Two bytes of the keyspace, and four of the raw length.
      length >= fixedLength &+ 6
    else { return nil }
    let rawFields = codec == .raw ? 0 : 4
    var header = RecordHeader(
      length: length, sequence: word & 0x00FF_FFFF_FFFF_FFFF, kind: .put, codec: codec,
      batch: kindByte & 0b0100_0000 == 0 ? .alone : .more, flags: Flag.keyspace,
      keyspace: UInt16(
        littleEndian: base.loadUnaligned(fromByteOffset: fixedLength &+ rawFields, as: UInt16.self)),
      rawLength: 0, batchCount: 0, keyOffset: fixedLength &+ 2 &+ rawFields,
      keyLength: Int(lengths &>> 8))
    header.rawLength =
      codec == .raw
      ? header.storedLength
      : Int(UInt32(littleEndian: base.loadUnaligned(fromByteOffset: fixedLength, as: UInt32.self)))
    return header.isSound ? header : nil
  }

  @usableFromInline
  static func parseOptionalFields(_ base: UnsafeRawPointer, length: Int) -> RecordHeader? {
    parseNamedPut(base, length: length) ?? parseAnyFields(base, length: length)
  }

  static func parseAnyFields(_ base: UnsafeRawPointer, length: Int) -> RecordHeader? {
    let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    let kindByte = UInt8(truncatingIfNeeded: word &>> 56)
    guard let kind = RecordKind(rawValue: kindByte & 15),
      let codec = RecordCodec(rawValue: (kindByte &>> 4) & 3),
      let batch = BatchRole(rawValue: kindByte &>> 6)
    else { return nil }
    let lengths = UInt32(littleEndian: base.loadUnaligned(fromByteOffset: 16, as: UInt32.self))
    var header = RecordHeader(
      length: length, sequence: word & 0x00FF_FFFF_FFFF_FFFF, kind: kind, codec: codec,
      batch: batch, flags: UInt8(truncatingIfNeeded: lengths), keyspace: 0, rawLength: 0,
      batchCount: 0, keyOffset: fixedLength, keyLength: Int(lengths &>> 8))
    guard header.takeOptionalFields(base) else { return nil }
    if codec == .raw { header.rawLength = header.storedLength }
    return header.isSound ? header : nil
  }

  private mutating func takeOptionalFields(_ base: UnsafeRawPointer) -> Bool {
    func take<Field: FixedWidthInteger>(_ type: Field.Type) -> Field? {
      let size = MemoryLayout<Field>.size
      guard keyOffset &+ size <= length else { return nil }
      defer { keyOffset &+= size }
      return Field(littleEndian: base.loadUnaligned(fromByteOffset: keyOffset, as: Field.self))
    }
    guard flags & (Flag.unknown | Flag.mustUnderstand) == 0 else { return false }
    if codec != .raw {
      guard let raw = take(UInt32.self) else { return false }
      rawLength = Int(raw)
    }
    if batch == .end {
      guard let count = take(UInt32.self) else { return false }
      batchCount = Int(count)
    }
    if flags & Flag.keyspace != 0 {
      guard let id = take(UInt16.self) else { return false }
      keyspace = id
    }
    if flags & Flag.expiry != 0, take(UInt64.self) == nil { return false }
    if flags & Flag.previous != 0, take(UInt64.self) == nil { return false }
    if flags & Flag.extension != 0 {
      guard let count = take(UInt16.self), keyOffset &+ Int(count) <= length else { return false }
      keyOffset &+= Int(count)
    }
    return true
  }

  /// Whether the key and the value are within their limits and within the record.
  @inlinable @inline(__always)
  var isSound: Bool {
    guard keyLength <= StoreLimits.keyLengthBytes, keyOffset &+ keyLength <= length else {
      return false
    }
    return isPlausible
  }

  /// Whether the fields agree with each other and with the limits of the record's kind.
  @inlinable @inline(__always)
  var isPlausible: Bool {
    switch kind {
    case .put:
      // This holds for a compressed value too: no writer stores one that compression makes longer.
      guard storedLength <= StoreLimits.valueLengthBytes else { return false }
      if codec == .raw { return true }
      return rawLength <= StoreLimits.valueLengthBytes
        && rawLength <= StoreLimits.rawLengthBound(stored: storedLength)
    case .delete: return storedLength == 0 && codec == .raw
    case .syncMark, .footer: return isPlausibleWithoutKey
    }
  }

  @usableFromInline
  var isPlausibleWithoutKey: Bool {
    let expected = kind == .syncMark ? SyncMark.recordLength : SegmentFooter.recordLength
    return length == expected && keyLength == 0 && flags == 0 && codec == .raw && batch == .alone
  }
}

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
