public import MoraineFormat

/// The result of ``Store/backup(to:_:)``.
public struct BackupReport: Sendable {
  /// Sequence number of the last operation in the backup.
  public internal(set) var sequence = SequenceNumber.none
  /// Number of segments in the backup.
  public internal(set) var segmentCount = 0
  /// Number of segments that an earlier backup had already copied.
  public internal(set) var keptSegmentCount = 0
  /// Number of segments whose bytes the file system shares with the store: clones or hard links.
  public internal(set) var sharedSegmentCount = 0
  /// Number of bytes that were copied, and not shared or kept.
  public internal(set) var copiedBytes: UInt64 = 0
  /// Number of bytes in all segments of the backup.
  public internal(set) var totalBytes: UInt64 = 0
  /// Duration of the backup in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}

/// The result of ``Store/restore(_:to:through:_:)``.
public struct RestoreReport: Sendable {
  /// Sequence number of the last operation in the restored store.
  public internal(set) var sequence = SequenceNumber.none
  /// Number of keys in the restored store.
  public internal(set) var count = 0
  /// Number of segments in the restored store.
  public internal(set) var segmentCount = 0
  /// Number of segments whose bytes the file system shares with the backup: clones.
  public internal(set) var sharedSegmentCount = 0
  /// Number of bytes that were copied, and not shared.
  public internal(set) var copiedBytes: UInt64 = 0
  /// Number of bytes in all segments of the store.
  public internal(set) var totalBytes: UInt64 = 0
  /// Number of bytes that were read again and checked.
  public internal(set) var checkedBytes: UInt64 = 0
  /// Duration of the restore in nanoseconds.
  public internal(set) var elapsedNanoseconds: UInt64 = 0
}
