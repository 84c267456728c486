public import MoraineFormat

/// The result of ``Store/salvage(_:to:onProgress:)``: what was recovered from a damaged store, and
/// what was lost.
public struct SalvageReport: Sendable {
  /// Number of puts and deletes that were read and copied to the new store.
  public internal(set) var recordCount: UInt64 = 0
  /// Number of keys in the new store.
  public internal(set) var count = 0
  /// Number of segments that were read.
  public internal(set) var segmentCount = 0
  /// Number of bytes in the segments that were read.
  public internal(set) var readBytes: UInt64 = 0
  /// Parts of the store that could not be recovered, roughly in the order of the log.
  public internal(set) var losses: [SalvageLoss] = []
  /// Ends of the log that a power failure or a kill has torn. No caller was promised that these
  /// records survive, and opening the store would have cut them off as well.
  public internal(set) var torn: [SalvageLoss] = []
  /// Segments whose header is damaged, but whose records were found.
  public internal(set) var segmentsWithoutHeader: [String] = []
  /// Segment files that the manifest does not list, or that belong to another store. None of their
  /// records were copied.
  public internal(set) var ignoredFiles: [String] = []
  /// The segments of ``ignoredFiles`` that belong to this store and contain whole operations. An
  /// interrupted compaction or backup leaves such segments; the new store then lacks nothing of
  /// them. A manifest that lists too few segments leaves them as well: compare their sequence
  /// numbers with those that you expect.
  public internal(set) var unlistedSegments: [UnlistedSegment] = []
  /// Duration of the salvage in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0

  /// Whether everything was recovered that the store had promised to keep.
  public var isComplete: Bool { losses.isEmpty }
}

/// An intact segment of the damaged store that its manifest does not list.
public struct UnlistedSegment: Sendable {
  /// The name of the file in the store's directory.
  public let file: String
  /// Number of whole puts and deletes in the segment.
  public let recordCount: UInt64
  /// Sequence number of the first of these operations.
  public let firstSequence: SequenceNumber
  /// Sequence number of the last of these operations.
  public let lastSequence: SequenceNumber
}

/// A part of a damaged store that could not be recovered.
///
/// The new store lacks the operations of that part. If a lost operation was the last one on its
/// key, the new store has an older value of the key: after a lost removal, the value that was
/// removed.
public struct SalvageLoss: Sendable {
  /// The kind of the part that is lost.
  public enum Kind: String, Sendable {
    /// The manifest: which segments count, and the names of the keyspaces.
    case manifest
    /// A whole segment.
    case segment
    /// Records that lie together.
    case records
    /// The value of a record whose key was recovered.
    case value
  }

  /// The kind of the part that is lost.
  public let kind: Kind
  /// The name of the file in the store's directory.
  public let file: String
  /// Offset of the part in the file, in bytes.
  public let offset: UInt64
  /// Length of the part in the file, in bytes.
  public let lengthBytes: UInt64
  /// The reason in words.
  public let reason: String
  /// Number of puts and deletes that are lost here; nil when it is not known; 0 where the damage
  /// affects no stored record.
  public internal(set) var recordCount: UInt64?
  /// A lower bound: the lost operations come after this sequence number.
  public internal(set) var after = SequenceNumber.none
  /// An upper bound: the lost operations come before this sequence number; nil when no operation
  /// follows them.
  public internal(set) var before: SequenceNumber?
  /// Whether the new store contains other operations of an atomic batch whose part is lost.
  public internal(set) var breaksBatch = false
  /// The keys that can be read in the damaged bytes.
  public internal(set) var keys: [SalvagedKey] = []
}

/// The key of a lost operation.
public struct SalvagedKey: Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public let keyspace: String
  /// The key.
  public let key: Key
  /// Sequence number of the lost operation.
  public let sequence: SequenceNumber
  /// Whether a checksum verifies the key. If not, the key was read from a damaged record.
  public let isVerified: Bool
  /// Whether the new store has an older or a later value of the key.
  public internal(set) var hasValue = false
}
