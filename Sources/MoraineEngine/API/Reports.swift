public import MoraineFormat

/// What opening found and did.
public struct RecoveryReport: Sendable {
  /// True when the last user of the store closed it in order, or there was no store.
  public internal(set) var wasClean = true
  /// Puts and deletes in the log.
  public internal(set) var recordCount: UInt64 = 0
  /// Whether an index checkpoint spared most of the reading.
  public internal(set) var usedCheckpoint = false
  /// Why an index checkpoint that was there was not used, when it could not be read or did not fit.
  public internal(set) var checkpointProblem: StoreError?
  /// Bytes of the log that were read to bring the index up to date.
  public internal(set) var replayedBytes: UInt64 = 0
  /// Segments that the store has.
  public internal(set) var segmentCount = 0
  /// The last operation that is there.
  public internal(set) var lastSequence = SequenceNumber.none
  /// Where a torn write was cut off, when one was.
  public internal(set) var tornSegment: SegmentNumber?
  /// Where in that segment, in bytes from its beginning.
  public internal(set) var tornOffset: UInt64?
  /// Bytes of the torn write, up to the last one that is not zero.
  public internal(set) var tornBytes: UInt64 = 0
  /// Bytes that nothing had proved durable, and that were copied into a new file and synced.
  public internal(set) var resyncedBytes: UInt64 = 0
  /// Files in the directory that are not the store's.
  public internal(set) var foreignFiles: [String] = []
  /// Segments of this store that its manifest does not list. Only a reader reports them: opening
  /// for writing removes them.
  public internal(set) var unlistedFiles: [String] = []
  /// Leftovers of an interrupted operation that were removed.
  public internal(set) var removedFiles: [String] = []
  /// How long opening took, in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}

/// What ``Store/verify(_:)`` found.
public struct VerificationReport: Sendable {
  /// Puts and deletes that were read.
  public internal(set) var recordCount: UInt64 = 0
  /// Bytes of the files that were read.
  public internal(set) var checkedBytes: UInt64 = 0
  /// Each place that is damaged, with its file and offset.
  public internal(set) var problems: [StoreError] = []
  /// Whether everything is as it was written.
  public var isSound: Bool { problems.isEmpty }
}

/// How far a long operation has come.
public struct Progress: Sendable {
  /// Bytes that are done.
  public var completedBytes: UInt64
  /// Bytes that there are to do; it may grow.
  public var totalBytes: UInt64

  /// For what reports progress of its own.
  public init(completedBytes: UInt64, totalBytes: UInt64) {
    self.completedBytes = completedBytes
    self.totalBytes = totalBytes
  }
}

/// A live record.
public struct Entry: Sendable {
  /// The number of its keyspace.
  let keyspace: UInt16
  /// The key, within its keyspace.
  public let key: Key
  /// Of the put that stored the value.
  public let sequence: SequenceNumber
  /// What is stored, decompressed.
  public let value: [UInt8]
}
