public import MoraineFormat

/// Result of opening a store.
public struct RecoveryReport: Sendable {
  /// Whether the last process that used the store closed it in order, or no store existed.
  public internal(set) var wasClean = true
  /// Number of puts and deletes in the log.
  public internal(set) var recordCount: UInt64 = 0
  /// Whether opening used an index checkpoint instead of reading most of the log.
  public internal(set) var usedCheckpoint = false
  /// The reason why an existing index checkpoint was not used: it could not be read, or did not
  /// fit.
  public internal(set) var checkpointProblem: StoreError?
  /// Bytes of the log that were read to bring the index up to date.
  public internal(set) var replayedBytes: UInt64 = 0
  /// Number of segments of the store.
  public internal(set) var segmentCount = 0
  /// Sequence number of the last operation in the store.
  public internal(set) var lastSequence = SequenceNumber.none
  /// The segment in which a torn write was cut off; nil when there was none.
  public internal(set) var tornSegment: SegmentNumber?
  /// Offset at which the torn write was cut off, in bytes from the beginning of the segment.
  public internal(set) var tornOffset: UInt64?
  /// Bytes of the torn write, up to the last one that is not zero.
  public internal(set) var tornBytes: UInt64 = 0
  /// Bytes that were not known to be durable, and that were copied into a new file and synced.
  public internal(set) var resyncedBytes: UInt64 = 0
  /// Files in the directory that do not belong to the store.
  public internal(set) var foreignFiles: [String] = []
  /// Segments of this store that its manifest does not list. Only a reader reports them: opening
  /// for writing removes them.
  public internal(set) var unlistedFiles: [String] = []
  /// Files that an interrupted operation had left, and that were removed.
  public internal(set) var removedFiles: [String] = []
  /// Duration of opening, in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}

/// Result of ``Store/verify(_:)``.
public struct VerificationReport: Sendable {
  /// Number of puts and deletes that were read.
  public internal(set) var recordCount: UInt64 = 0
  /// Bytes of the files that were read.
  public internal(set) var checkedBytes: UInt64 = 0
  /// Every damaged place, with its file and offset.
  public internal(set) var problems: [StoreError] = []
  /// Whether all bytes are as they were written.
  public var isSound: Bool { problems.isEmpty }
}

extension Store {
  /// Progress of a long operation.
  public struct Progress: Sendable {
    /// Bytes that the operation has processed.
    public var completedBytes: UInt64
    /// Bytes that the operation has to process; the number may grow.
    public var totalBytes: UInt64

    /// Creates a progress value, for code that reports its own progress.
    public init(completedBytes: UInt64, totalBytes: UInt64) {
      self.completedBytes = completedBytes
      self.totalBytes = totalBytes
    }
  }
}

extension Store {
  /// A live record.
  public struct Entry: Sendable {
    /// Number of the keyspace.
    let keyspace: UInt16
    /// The key within its keyspace.
    public let key: Key
    /// Sequence number of the put that stored the value.
    public let sequence: SequenceNumber
    /// The stored value, decompressed.
    public let value: [UInt8]
  }
}
