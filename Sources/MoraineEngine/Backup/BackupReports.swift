public import MoraineFormat

/// What ``Store/backup(to:_:)`` did.
public struct BackupReport: Sendable {
  /// The last operation that the backup has.
  public internal(set) var sequence = SequenceNumber.none
  /// Segments of the backup.
  public internal(set) var segmentCount = 0
  /// Segments that an earlier backup had put there.
  public internal(set) var keptSegmentCount = 0
  /// Segments whose bytes the file system shares with the store: clones, or hard links.
  public internal(set) var sharedSegmentCount = 0
  /// Bytes that were copied, rather than shared or kept.
  public internal(set) var copiedBytes: UInt64 = 0
  /// Of all segments of the backup.
  public internal(set) var totalBytes: UInt64 = 0
  /// How long it took, in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}

/// What ``Store/restore(_:to:through:_:)`` did.
public struct RestoreReport: Sendable {
  /// The last operation that the restored store has.
  public internal(set) var sequence = SequenceNumber.none
  /// How many keys it has.
  public internal(set) var count = 0
  /// Segments of the store.
  public internal(set) var segmentCount = 0
  /// Segments whose bytes the file system shares with the backup: clones.
  public internal(set) var sharedSegmentCount = 0
  /// Bytes that were copied, rather than shared.
  public internal(set) var copiedBytes: UInt64 = 0
  /// Of all segments of the store.
  public internal(set) var totalBytes: UInt64 = 0
  /// Bytes that were read again and checked.
  public internal(set) var checkedBytes: UInt64 = 0
  /// How long it took, in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}
