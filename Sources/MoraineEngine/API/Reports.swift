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
  public internal(set) var segmentCount = 0
  /// The last operation that is there.
  public internal(set) var lastSequence = SequenceNumber.none
  /// Where a torn write was cut off, when one was.
  public internal(set) var tornSegment: SegmentNumber?
  public internal(set) var tornOffset: UInt64?
  /// Bytes of the torn write, up to the last one that is not zero.
  public internal(set) var tornBytes: UInt64 = 0
  /// Bytes that nothing had proved durable, and that were written and synced again.
  public internal(set) var resyncedBytes: UInt64 = 0
  /// Files in the directory that are not the store's.
  public internal(set) var foreignFiles: [String] = []
  /// Leftovers of an interrupted operation that were removed.
  public internal(set) var removedFiles: [String] = []
  /// How long opening took, in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}

/// What ``Store/verify(_:)`` found.
public struct VerificationReport: Sendable {
  public internal(set) var recordCount: UInt64 = 0
  public internal(set) var checkedBytes: UInt64 = 0
  public internal(set) var problems: [StoreError] = []
  public var isSound: Bool { problems.isEmpty }
}

/// How far a long operation has come.
public struct Progress: Sendable {
  public var completedBytes: UInt64
  public var totalBytes: UInt64

  public init(completedBytes: UInt64, totalBytes: UInt64) {
    self.completedBytes = completedBytes
    self.totalBytes = totalBytes
  }
}

/// A live record.
public struct Entry: Sendable {
  /// Its number in the store.
  let keyspace: UInt16
  public let key: Key
  public let sequence: SequenceNumber
  public let value: [UInt8]
}
