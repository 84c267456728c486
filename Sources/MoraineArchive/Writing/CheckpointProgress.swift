import MoraineEngine
import MoraineFormat

/// What was shipped since the last checkpoint, and whether the next one is due.
///
/// A checkpoint spares a restore the bytes that are not live any more, and the requests for the
/// commits. It costs the upload of all segments that no object has. Where nothing is overwritten,
/// these are all bytes that were shipped, a second time, for nothing. And the open segment is
/// uploaded whole, however little of it is new.
struct CheckpointProgress {
  var position: UInt64 = 0
  /// The bytes of the log that were shipped since the cut of the last checkpoint.
  var bytes = 0
  var began: ContinuousClock.Instant
  /// The length of all segments at the cut of the last checkpoint, or when the writer attached; nil
  /// before the first cut.
  var storeBytes: Int?
  /// The objects of the segments in the last checkpoint; nil while they are not known.
  var objects: [CheckpointContents.Segment]?

  /// Where and when a checkpoint was last found not to be due.
  private var refused: (position: UInt64, moment: ContinuousClock.Instant)?

  init(began: ContinuousClock.Instant) { self.began = began }

  /// The commits after which a checkpoint is made, also when other processes have written them: a
  /// restore reads them all.
  static let commitLimit: UInt64 = 3600
  /// How often a store without news is looked at: compaction may have made it smaller.
  private static let looksInAnInterval = 60
  /// The number of intervals after which a checkpoint is made, however little it spares.
  static let longestWait = 24

  /// Whether a checkpoint may be due. Costs nothing where little was shipped since the last one, or
  /// nothing since the last look.
  func mayBeDue(
    _ configuration: ArchiveConfiguration, position end: UInt64, now: ContinuousClock.Instant
  ) -> Bool {
    if let refused, refused.position == end,
      now - refused.moment < configuration.checkpointInterval / Self.looksInAnInterval
    {
      return false
    }
    return bytes > 0
      && (bytes > configuration.checkpointBytes || end > position + Self.commitLimit
        || now - began > configuration.checkpointInterval)
  }

  /// Whether a checkpoint is due. Where the objects of the last one cannot be read, it is due as
  /// soon as it may be.
  ///
  /// - Complexity: O(segments).
  func isDue(
    _ configuration: ArchiveConfiguration, _ segments: [SegmentBytes], position end: UInt64,
    now: ContinuousClock.Instant
  ) -> Bool {
    guard mayBeDue(configuration, position: end, now: now) else { return false }
    guard let objects else { return true }
    let waited = now - began
    if end > position + Self.commitLimit { return true }
    if waited > configuration.checkpointInterval * Self.longestWait { return true }
    let commits = Int(clamping: end - min(end, position))
    let spared = sparedBytes(segments) + commits * configuration.commitCostBytes
    let liveBytes = segments.reduce(0) { $0 + Int(clamping: $1.entry.liveBytes) }
    if bytes > configuration.checkpointBytes, spared > liveBytes / 8 { return true }
    guard waited > configuration.checkpointInterval else { return false }
    let known = Set(objects.map(\.contents))
    let uploaded = segments.reduce(0) { $0 + (known.contains($1.contents) ? 0 : $1.lengthBytes) }
    return spared >= uploaded / 4
  }

  /// Records that a checkpoint is not due now.
  mutating func refuse(position: UInt64, at moment: ContinuousClock.Instant) {
    refused = (position, moment)
  }

  /// Returns the bytes that a restore need not read after a checkpoint, without the requests.
  private func sparedBytes(_ segments: [SegmentBytes]) -> Int {
    let length = segments.reduce(0) { $0 + $1.lengthBytes }
    let growth = length - (storeBytes ?? length)
    return bytes - growth
  }
}

/// The first bytes of a segment. What they contain never changes.
struct SegmentContents: Hashable {
  let identity: SegmentIdentity
  let lengthBytes: UInt64
}

extension CheckpointContents.Segment {
  var contents: SegmentContents {
    SegmentContents(
      identity: SegmentIdentity(number: number, epoch: epoch, salt: salt), lengthBytes: lengthBytes)
  }
}

extension SegmentBytes {
  var contents: SegmentContents {
    SegmentContents(identity: identity, lengthBytes: entry.lengthBytes)
  }
}
