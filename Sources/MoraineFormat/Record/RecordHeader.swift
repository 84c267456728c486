/// The kind of a record.
package enum RecordKind: UInt8, Sendable {
  case put = 1
  case delete = 2
  case syncMark = 3
  case footer = 4

  /// What a record does to the value of its key.
  package enum Effect: Sendable {
    case sets
    case removes
    /// The record has no key: it describes the log.
    case none
  }

  /// What records of this kind do. Code that applies, keeps or copies records asks for the effect
  /// and not for the kind.
  @inlinable @inline(__always)
  package var effect: Effect {
    switch self {
    case .put: .sets
    case .delete: .removes
    case .syncMark, .footer: .none
    }
  }

  /// Whether the record has a key and a sequence number of its own.
  @inlinable @inline(__always)
  package var isOperation: Bool { effect != .none }
}

/// How a record's value is stored.
package enum RecordCodec: UInt8, Sendable {
  case raw = 0
  case lz4 = 1
  case lz4Dictionary = 2
}

/// A record's part in an atomic batch.
package enum BatchRole: UInt8, Sendable {
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
package struct RecordHeader: Sendable {
  package static let fixedLength = 20

  package enum Flag {
    package static let keyspace: UInt8 = 1 << 0
    package static let expiry: UInt8 = 1 << 1
    package static let previous: UInt8 = 1 << 2
    package static let received: UInt8 = 1 << 3
    package static let `extension`: UInt8 = 1 << 4
    package static let mustUnderstand: UInt8 = 1 << 5
    package static let unknown: UInt8 = 0b1100_0000
  }

  package var length: Int
  package var sequence: UInt64
  package var kind: RecordKind
  package var codec: RecordCodec
  package var batch: BatchRole
  package var flags: UInt8
  package var keyspace: UInt16
  package var rawLength: Int
  package var batchCount: Int
  package var keyOffset: Int
  package var keyLength: Int

  @inlinable @inline(__always)
  package var valueOffset: Int { keyOffset &+ keyLength }
  @inlinable @inline(__always)
  package var storedLength: Int { length &- keyOffset &- keyLength }

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
