public import MoraineFormat

/// What ``Store/salvage(_:to:_:)`` has recovered of a damaged store, and what it could not.
public struct SalvageReport: Sendable {
  /// Puts and deletes that were read and taken over.
  public internal(set) var recordCount: UInt64 = 0
  /// Keys of the new store.
  public internal(set) var count = 0
  /// Segments that were read.
  public internal(set) var segmentCount = 0
  /// Bytes of them.
  public internal(set) var readBytes: UInt64 = 0
  /// What could not be recovered, in the order of the log.
  public internal(set) var losses: [SalvageLoss] = []
  /// What nobody was promised: the end of a log that a power failure or a kill has torn, which
  /// opening would have cut off too.
  public internal(set) var torn: [SalvageLoss] = []
  /// Segments whose own header is damaged, and whose records were found all the same.
  public internal(set) var segmentsWithoutHeader: [String] = []
  /// Segment files that the manifest does not list, or of another store; nothing of them was taken
  /// over.
  public internal(set) var ignoredFiles: [String] = []
  /// Those of ``ignoredFiles`` that are this store's, and have whole operations. A compaction or a
  /// backup that was interrupted leaves such segments, and then nothing of them is missing. So does
  /// a manifest that lists too few: compare their sequence numbers with what you expect to have.
  public internal(set) var unlistedSegments: [UnlistedSegment] = []
  /// How long it took, in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0

  /// Whether nothing that was ever promised is missing.
  public var isComplete: Bool { losses.isEmpty }
}

/// A segment of the damaged store that is intact, and that its manifest does not list.
public struct UnlistedSegment: Sendable {
  /// The file's name in the store's directory.
  public let file: String
  /// Whole puts and deletes in it.
  public let recordCount: UInt64
  /// The sequence number of the first of them.
  public let firstSequence: SequenceNumber
  /// The sequence number of the last of them.
  public let lastSequence: SequenceNumber
}

/// A part of a damaged store that could not be recovered.
///
/// Whatever was written there is not in the new store. Where that was the last word on a key, an
/// older value of it is, or, if it was a removal, the value that was removed.
public struct SalvageLoss: Sendable {
  /// What is lost.
  public enum Kind: String, Sendable {
    /// The manifest: which segments count, and the names of the keyspaces.
    case manifest
    /// A whole segment.
    case segment
    /// Records that lie together.
    case records
    /// The value of a record whose key is there.
    case value
  }

  /// What is lost.
  public let kind: Kind
  /// The file's name in the store's directory.
  public let file: String
  /// Where it begins in the file, in bytes.
  public let offset: UInt64
  /// How many bytes of the file it is.
  public let lengthBytes: UInt64
  /// Why, in words.
  public let reason: String
  /// How many puts and deletes are lost here; nil when nobody can tell. 0 where the damage has hit
  /// nothing that is stored.
  public internal(set) var recordCount: UInt64?
  /// Lost operations come after this sequence number …
  public internal(set) var after = SequenceNumber.none
  /// … and before this one; nil when there was none behind them.
  public internal(set) var before: SequenceNumber?
  /// Whether other operations of an atomic batch are in the new store.
  public internal(set) var breaksBatch = false
  /// The keys that the damaged bytes name.
  public internal(set) var keys: [SalvagedKey] = []
}

/// A key whose operation was lost.
public struct SalvagedKey: Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public let keyspace: String
  /// The key.
  public let key: Key
  /// The operation's sequence number.
  public let sequence: SequenceNumber
  /// Whether a checksum proves the key; otherwise it was read from the damaged record.
  public let isProven: Bool
  /// Whether the new store has an older, or a later, value of the key.
  public internal(set) var hasValue = false
}
