public import MoraineFormat

extension Store {
  /// Figures of a store at one moment.
  public struct Statistics: Sendable {
    /// Number of live keys. It includes those that have expired and were not deleted yet, which
    /// ``Store/count()`` does not.
    public internal(set) var count = 0
    /// Number of segments of the log.
    public internal(set) var segmentCount = 0
    /// Bytes in use in all segments.
    public internal(set) var diskBytes: UInt64 = 0
    /// Bytes of the live records.
    public internal(set) var liveBytes: UInt64 = 0
    /// Memory of the index, in bytes.
    public internal(set) var indexBytes = 0
    /// Sequence number of the last operation in the store.
    public internal(set) var lastSequence = SequenceNumber.none
    /// Sequence number up to which all operations survive a power failure.
    public internal(set) var durableSequence = SequenceNumber.none
    /// Number of syncs of the log since opening. Commits that waited together share one.
    public internal(set) var syncCount: UInt64 = 0
    /// Nanoseconds since the sync under way began; nil when there is none.
    public internal(set) var syncUnderWayNanoseconds: UInt64?
    /// Digest of all live keys and their sequence numbers: equal states have equal digests.
    public internal(set) var digest = StateDigest()
    /// Bytes of the records and marks that were appended since opening.
    public internal(set) var appendedBytes: UInt64 = 0
    /// Bytes that compaction has written since opening.
    public internal(set) var compactionBytes: UInt64 = 0
    /// Number of compactions since opening. Each rewrites some neighbouring segments.
    public internal(set) var compactionCount: UInt64 = 0
    /// Bytes of the index checkpoints that were written since opening.
    public internal(set) var checkpointBytes: UInt64 = 0
    /// Bytes on disk for each live byte. A store without live bytes counts as having one.
    public var spaceAmplification: Double {
      diskBytes == 0 ? 1 : Double(diskBytes) / Double(max(1, liveBytes))
    }
    /// Bytes written for each byte appended, since opening; 1 while nothing was appended.
    public var writeAmplification: Double {
      appendedBytes == 0 ? 1 : 1 + Double(compactionBytes + checkpointBytes) / Double(appendedBytes)
    }
    /// The error that stopped writing for good; nil when there is none.
    public internal(set) var poison: StoreError?
  }
}

extension Store.Statistics: CustomStringConvertible {
  /// The statistics as text, in the order in which they are shown.
  package var fields: [(name: String, value: String, isText: Bool)] {
    [
      ("count", "\(count)", false), ("segmentCount", "\(segmentCount)", false),
      ("diskBytes", "\(diskBytes)", false), ("liveBytes", "\(liveBytes)", false),
      ("indexBytes", "\(indexBytes)", false), ("lastSequence", "\(lastSequence)", false),
      ("durableSequence", "\(durableSequence)", false), ("syncCount", "\(syncCount)", false),
      ("digest", "\(digest)", true), ("isPoisoned", "\(poison != nil)", false),
      ("appendedBytes", "\(appendedBytes)", false),
      ("compactionBytes", "\(compactionBytes)", false),
      ("checkpointBytes", "\(checkpointBytes)", false),
      ("compactionCount", "\(compactionCount)", false),
      ("spaceAmplification", "\(spaceAmplification)", false),
      // A store that is only read has no write amplification.
      ("writeAmplification", appendedBytes == 0 ? "null" : "\(writeAmplification)", false),
    ]
  }

  public var description: String {
    fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
  }
}

/// Figures of one segment.
public struct SegmentStatistics: Hashable, Sendable {
  /// Number of the segment: the name of its file.
  public internal(set) var number: SegmentNumber
  /// Bytes in use.
  public internal(set) var lengthBytes: UInt64 = 0
  /// Bytes of the live records, including padding.
  public internal(set) var liveBytes: UInt64 = 0
  /// Number of puts and deletes.
  public internal(set) var recordCount: UInt64 = 0
  /// Sequence number of the last put or delete; none when the segment has none.
  public internal(set) var lastSequence = SequenceNumber.none
  /// Whether the segment is sealed; false for the one that is being appended to.
  public internal(set) var isSealed = false
  /// Whether compaction wrote the segment.
  public internal(set) var isCompacted = false
  /// Whether compaction wrote the records of ordered keyspaces in the order of their keys.
  public internal(set) var isClustered = false

  /// Live share of the segment, 0 to 1.
  public var liveRatio: Double {
    lengthBytes == 0 ? 1 : Double(liveBytes) / Double(lengthBytes)
  }
}

/// Distribution of the live records over a segment.
public struct SegmentLiveness: Hashable, Sendable {
  /// Figures of the segment.
  public internal(set) var segment: SegmentStatistics
  /// Live share of each part of the segment, 0 to 1; the parts are equally long.
  public internal(set) var shares: [Double]
}

/// Where the records of an ordered keyspace lie in the log.
package struct KeyOrderPlaces: Hashable, Sendable {
  /// Number of entries in each part of the log, by columns of the keys: `counts[column][row]`. The
  /// columns have equally many keys, but for one; the rows have equally many bytes of the log, the
  /// oldest first.
  package let counts: [[Int]]
}
