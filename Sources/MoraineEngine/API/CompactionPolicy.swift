/// When and what compaction rewrites by itself.
///
/// The log is allowed garbage: the more, the cheaper each byte that cleaning gives back. Always
/// cleaning the segment with the most garbage costs a write amplification of 1/(1-u) under uniform
/// overwrites, where (u-1)/ln u is the inverse of the space amplification (Desnoyers, "Analytic
/// modeling of SSD write performance", SYSTOR 2012): 1.72 at 1.5.
public struct CompactionPolicy: Hashable, Sendable {
  /// Whether segments are compacted in the background, after each that was sealed, and when the
  /// disk is full. Default: true.
  public var isAutomatic = true
  /// The log may have so many times the bytes of its live records before compaction begins:
  /// 1.1 to 1,000,000; what lies outside counts as the nearer end. Default: 1.5.
  public var spaceAmplificationLimit = 1.5
  /// A segment that is live to a larger share than this is not rewritten for its garbage: 0 to
  /// 1; what lies outside counts as the nearer end. Default: 0.95.
  public var liveRatioLimit = 0.95
  /// How many bytes a second compaction reads at most, from 1; nil, the default, follows what is
  /// being written: as fast as it can while nobody writes, otherwise about twice as fast as they
  /// do.
  ///
  /// With a limit no writer is held back for compaction to keep up: the log may then outgrow
  /// ``spaceAmplificationLimit``.
  public var rateLimitBytesPerSecond: Int?
  /// Whether a segment that compaction writes may begin with what its values have in common, so
  /// that short values that resemble each other compress; a dictionary that saves less than a
  /// twentieth is left out. Default: true.
  ///
  /// ``Store/compact(_:)`` then also rewrites segments without garbage, once each. When false, no
  /// new dictionary is made; a segment keeps one that it has while it is rewritten by itself.
  public var sharesDictionaries = true

  /// The policy that suits an app.
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
  /// Bytes of those segments.
  public internal(set) var inputBytes: UInt64 = 0
  /// Bytes of the segments that took their place.
  public internal(set) var outputBytes: UInt64 = 0
}
