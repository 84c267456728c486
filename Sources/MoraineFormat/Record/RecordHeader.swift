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
  public static let fixedLength = 20

  public enum Flag {
    public static let keyspace: UInt8 = 1 << 0
    public static let expiry: UInt8 = 1 << 1
    public static let previous: UInt8 = 1 << 2
    public static let received: UInt8 = 1 << 3
    public static let `extension`: UInt8 = 1 << 4
    public static let mustUnderstand: UInt8 = 1 << 5
    public static let unknown: UInt8 = 0b1100_0000
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
