/// Rules for when compaction runs automatically and which segments it rewrites.
///
/// The log may contain garbage. The more garbage the policy allows, the less it costs to free a
/// byte. Always cleaning the segment with the most garbage costs a write amplification of 1/(1-u)
/// under uniform overwrites, where (u-1)/ln u is the inverse of the space amplification (Desnoyers,
/// "Analytic modeling of SSD write performance", SYSTOR 2012): 1.72 at a space amplification of
/// 1.5.
public struct CompactionPolicy: Hashable, Sendable {
  /// Whether segments are compacted in the background: after each seal, and when the disk is full.
  /// Default: true.
  public var isAutomatic = true
  /// The space amplification that compaction keeps the log within: bytes of the log for each byte
  /// of its live records. Compaction begins a little earlier: at 1.4 where the limit is 1.5. 1.1 to
  /// 1,000,000; a value outside that range counts as the nearer end. Default: 1.5.
  public var spaceAmplificationLimit = 1.5
  /// The space amplification down to which an idle store is compacted: a store that was written to,
  /// and that no task has written to for two seconds since. A write ends such a compaction after
  /// the present segment. 1.1 to 1,000,000; a value outside that range counts as the nearer end.
  /// Default: 1.1.
  public var idleSpaceAmplificationLimit = 1.1
  /// The highest live ratio of a segment that compaction rewrites for its garbage: 0 to 1; a value
  /// outside that range counts as the nearer end. Default: 0.95.
  public var liveRatioLimit = 0.95
  /// The most bytes that compaction reads per second, at least 1. nil, the default, follows the
  /// rate of writes: compaction runs as fast as it can while no task writes, and otherwise about
  /// twice as fast as the writers write.
  ///
  /// With a limit, no writer is held back so that compaction can keep up: the log may then outgrow
  /// ``spaceAmplificationLimit``.
  public var rateLimitBytesPerSecond: Int?
  /// Whether a segment that compaction writes may begin with a dictionary: bytes that its values
  /// have in common, so that short values that resemble each other compress. A dictionary that
  /// saves less than a twentieth is left out. Default: true.
  ///
  /// When true, ``Store/compact(onProgress:)`` also rewrites segments without garbage, once each.
  /// When false, compaction makes no new dictionary. A segment that has one keeps it when it is
  /// rewritten alone.
  public var sharesDictionaries = true

  /// Creates the default policy, which suits an app.
  public init() {}

  /// A policy without automatic compaction: only ``Store/compact(onProgress:)`` compacts.
  public static var manual: CompactionPolicy {
    var policy = CompactionPolicy()
    policy.isAutomatic = false
    return policy
  }
}

/// Result of a compaction.
public struct CompactionReport: Hashable, Sendable {
  /// Number of segments that were rewritten or dropped.
  public internal(set) var inputSegmentCount = 0
  /// Bytes of the segments that were rewritten or dropped.
  public internal(set) var inputBytes: UInt64 = 0
  /// Bytes of the segments that replaced them.
  public internal(set) var outputBytes: UInt64 = 0
}
