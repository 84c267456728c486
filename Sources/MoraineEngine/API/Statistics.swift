public import MoraineFormat

/// A store's figures at one moment.
public struct Statistics: Sendable {
  /// Live keys.
  public internal(set) var count = 0
  /// Segments of the log.
  public internal(set) var segmentCount = 0
  /// Bytes of all segments, in use.
  public internal(set) var diskBytes: UInt64 = 0
  /// Bytes of the records that are live.
  public internal(set) var liveBytes: UInt64 = 0
  /// Memory of the index, in bytes.
  public internal(set) var indexBytes = 0
  /// Of the last operation that is there.
  public internal(set) var lastSequence = SequenceNumber.none
  /// A power failure takes nothing up to this one.
  public internal(set) var durableSequence = SequenceNumber.none
  /// Syncs of the log since opening; commits that waited together share one.
  public internal(set) var syncCount: UInt64 = 0
  /// Nanoseconds since the sync under way began, when one is.
  public internal(set) var syncUnderWayNanoseconds: UInt64?
  /// A sum over all live keys and their sequence numbers: equal states have equal ones.
  public internal(set) var digest = StateDigest()
  /// Bytes appended since opening: records and marks.
  public internal(set) var appendedBytes: UInt64 = 0
  /// Bytes that compaction has written since opening.
  public internal(set) var compactionBytes: UInt64 = 0
  /// Compactions since opening, each of some neighbouring segments.
  public internal(set) var compactionCount: UInt64 = 0
  /// Bytes of index checkpoints that were written since opening.
  public internal(set) var checkpointBytes: UInt64 = 0
  /// Bytes on disk for each live byte; where none is live, as if one were.
  public var spaceAmplification: Double {
    diskBytes == 0 ? 1 : Double(diskBytes) / Double(max(1, liveBytes))
  }
  /// Bytes written for each byte appended, since opening; 1 as long as nothing was appended.
  public var writeAmplification: Double {
    appendedBytes == 0 ? 1 : 1 + Double(compactionBytes + checkpointBytes) / Double(appendedBytes)
  }
  /// Why the store no longer writes, when it does not.
  public internal(set) var poison: StoreError?
}

extension Statistics: CustomStringConvertible {
  private var fields: [(name: String, value: String, isText: Bool)] {
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
      // Who only reads has nothing to say about it.
      ("writeAmplification", appendedBytes == 0 ? "null" : "\(writeAmplification)", false),
    ]
  }

  public var description: String {
    fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n")
  }

  /// One JSON object on one line.
  public var json: String {
    let members = fields.map { field in
      "\"\(field.name)\":" + (field.isText ? "\"\(field.value)\"" : field.value)
    }
    return "{" + members.joined(separator: ",") + "}"
  }
}

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
