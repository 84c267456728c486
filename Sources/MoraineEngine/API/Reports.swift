public import MoraineFormat

/// Result of opening a store.
public struct RecoveryReport: Sendable {
  /// Whether the last process that used the store closed it in order, or no store existed.
  public internal(set) var wasClean = true
  /// Number of puts and deletes in the log.
  public internal(set) var recordCount: UInt64 = 0
  /// Whether opening used an index checkpoint instead of reading most of the log.
  public internal(set) var usedCheckpoint = false
  /// The reason why an existing index checkpoint was not used: it could not be read, was damaged,
  /// or contradicted the log. Nil for one of a newer version or of another log. Damaged pages of a
  /// checkpoint may be found later, by the first operation that needs them; the index is then read
  /// from the log.
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

/// Result of ``Store/verify(onProgress:)``.
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
    /// The time at which the entry ends, in milliseconds since 1970; 0 where it does not end, or
    /// where nothing needs the time.
    package var expiryMilliseconds: UInt64 = 0
  }
}

/// An event of a store that no caller waits for, or that the operator of the program wants to know.
/// The store calls ``Store/Configuration/onEvent`` with it.
///
/// Reading and writing make no events. Later versions may add events, so always have a `default`.
public enum StoreEvent: Sendable {
  /// The store is open; the report says what opening found and did. This event also follows the
  /// first write, when that created the store, and ``Store/resume()``; in a shared store it also
  /// follows when another process has created the store.
  case opened(RecoveryReport)
  /// A segment is on stable storage and will not be written to any more: a full one, or the last
  /// one when the store is closed. `lengthBytes` is its length.
  case segmentSealed(SegmentNumber, lengthBytes: UInt64)
  /// Neighbouring segments were rewritten as one, or dropped. The time includes pauses.
  /// ``Store/compact(onProgress:)`` makes this event too.
  case compacted(CompactionReport, elapsedNanoseconds: UInt64)
  /// A background compaction ended early, or left out a damaged segment. See
  /// ``Store/compactionFailure``.
  case compactionFailed(StoreError)
  /// An index checkpoint was written, with its length and the time that this took.
  case checkpointWritten(lengthBytes: UInt64, elapsedNanoseconds: UInt64)
  /// An index checkpoint was not written, so that opening takes longer, or the checkpoint that it
  /// replaces was not removed. See ``Store/checkpointFailure``.
  case checkpointFailed(StoreError)
  /// A keyspace that has keys is being ordered. The store has processed another segment: first it
  /// verifies all segments, and then it builds the tree.
  case keyspaceOrdering(name: String, Store.Progress)
  /// A keyspace that had keys is ordered now. The store answered no other call in that time, in
  /// which it built the tree.
  case keyspaceOrdered(name: String, keyCount: Int, elapsedNanoseconds: UInt64)
  /// An index that was added to a repository with models is being built: so many models have been
  /// looked at.
  case indexBuilding(keyspace: String, modelCount: Int)
  /// An index that was added to a repository with models is ready; queries use it.
  case indexBuilt(keyspace: String, index: String, modelCount: Int, elapsedNanoseconds: UInt64)
  /// An index is incomplete, for example because two models have the same value in a unique index,
  /// or a model cannot be decoded. Queries do without the index. The build continues when the
  /// repository is opened again.
  case indexBuildingFailed(keyspace: String, StoreError)
  /// Expired entries were deleted. `count` is their number.
  case entriesExpired(count: Int)
  /// Expired entries were not deleted, for example because the disk is full. Reads hide them
  /// nevertheless. The store tries again after ``Store/Configuration/reapInterval``.
  case reapingFailed(StoreError)
  /// The clock was set forward by more than ``Store/Configuration/expiryGrace``. If that was wrong,
  /// reads hide entries that have not expired. The store deletes none of them for that time:
  /// correct the clock, and open the store again.
  case clockJumped(milliseconds: UInt64)
  /// The manifest could not be written after a segment was sealed in the background, for example
  /// because the disk was full. Nothing is lost: the next manifest says the same.
  case manifestFailed(StoreError)
  /// An operation found no space on the disk. The event does not repeat until the store has found
  /// space for more values.
  case outOfSpace(StoreError)
  /// The store has stopped writing for good, because a failure left the contents of the disk
  /// unknown: close it and open it again. The event happens once.
  case poisoned(StoreError)
  /// The store released its locks in ``Store/suspend()``. `failure` is the error that the call
  /// threw, if any.
  case suspended(failure: StoreError?)
  /// The store was closed. `failure` is the error that ``Store/close()`` threw, if any. This is the
  /// last event.
  case closed(failure: StoreError?)
}
