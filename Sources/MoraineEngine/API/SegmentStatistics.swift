public import MoraineFormat

/// What a store knows of one of its segments.
public struct SegmentStatistics: Hashable, Sendable {
  /// Its number: the name of its file.
  public internal(set) var number: SegmentNumber
  /// Bytes in use.
  public internal(set) var lengthBytes: UInt64 = 0
  /// Bytes of its records that are live, padding included.
  public internal(set) var liveBytes: UInt64 = 0
  /// Puts and deletes.
  public internal(set) var recordCount: UInt64 = 0
  /// Of its last put or delete; none when it has none.
  public internal(set) var lastSequence = SequenceNumber.none
  /// False for the one that is being appended to.
  public internal(set) var isSealed = false
  /// Whether it was written by compaction.
  public internal(set) var isCompacted = false

  /// The share of it that is live, 0 to 1.
  public var liveRatio: Double {
    lengthBytes == 0 ? 1 : Double(liveBytes) / Double(lengthBytes)
  }
}

/// Where in a segment its live records lie.
public struct SegmentLiveness: Hashable, Sendable {
  /// What is known of the segment.
  public internal(set) var segment: SegmentStatistics
  /// The share of each part of its length that is live, 0 to 1; the parts are equally long.
  public internal(set) var shares: [Double]
}
