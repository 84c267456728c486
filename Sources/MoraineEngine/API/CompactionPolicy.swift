/// When and what compaction rewrites by itself.
public struct CompactionPolicy: Hashable, Sendable {
  /// Whether segments are compacted in the background, after each that was sealed. Default: true.
  public var isAutomatic = true
  /// The log may have so many times the bytes of its live records before compaction begins; at
  /// least 1.1. Default: 1.5.
  public var spaceAmplificationLimit = 1.5

  public init() {}

  /// Nothing is compacted unless ``Store/compact(_:)`` is called.
  public static var manual: CompactionPolicy {
    var policy = CompactionPolicy()
    policy.isAutomatic = false
    return policy
  }
}

/// What compaction has done.
public struct CompactionReport: Hashable, Sendable {
  /// Segments that were rewritten or dropped.
  public internal(set) var inputSegmentCount = 0
  public internal(set) var inputBytes: UInt64 = 0
  /// Bytes of the segments that took their place.
  public internal(set) var outputBytes: UInt64 = 0
}
