/// Decides what a compaction rewrites. Pure: the same figures lead to the same decision.
///
/// ``BackgroundStrategy`` keeps the garbage within the limit of the policy, ``FullDiskStrategy``
/// frees space when there is no other, ``ThoroughStrategy`` rewrites the whole log once. How fast a
/// compaction reads is decided by ``CompactionPacer``.
protocol CompactionStrategy {
  /// Returns the neighbours among the sealed segments to rewrite as one segment; nil when nothing
  /// is worth the work.
  func next(_ log: CompactionFigures) -> Range<Int>?
  /// Whether there is more garbage than the policy allows: then compaction does not pause.
  func isOverLimit(_ log: GarbageFigures) -> Bool
  /// How writers wait for compaction.
  func delay(_ log: GarbageFigures) -> WriterDelay
  /// Whether the active segment is worth sealing for its garbage alone.
  func sealsActive(_ log: CompactionFigures) -> Bool
}

extension CompactionStrategy {
  func isOverLimit(_ log: GarbageFigures) -> Bool { false }
  func delay(_ log: GarbageFigures) -> WriterDelay { .none }
  func sealsActive(_ log: CompactionFigures) -> Bool { false }
}

/// The reason for a compaction in the background.
enum CompactionOccasion {
  /// There is more garbage than the policy allows, or a checkpoint is due.
  case garbage
  case fullDisk
  /// No task writes.
  case idleness
}

/// How much garbage a log has.
struct GarbageFigures {
  /// Total length of all segments without the garbage that must stay, in bytes.
  var cleanableBytes: Int
  /// Total length of the live records, in bytes.
  var liveBytes: UInt64
}

/// The facts about a log that compaction decides from.
struct CompactionFigures {
  /// The sealed segments that compaction may rewrite, in replay order.
  var segments: [SegmentFigures]
  /// The other segments, which accept records or are being sealed.
  var open: [SegmentFigures]
  /// The segment that accepts records; nil when there is none.
  var active: SegmentFigures?
  /// Total length of all segments, in bytes.
  var totalBytes: Int
  /// Total length of the live records, in bytes.
  var liveBytes: UInt64
  /// Length that a segment may have, in bytes.
  var segmentSizeBytes: Int
  /// Length of a segment that fits the size of the store, in bytes.
  var fittingSegmentBytes: Int

  /// Total length of all segments without the garbage that must stay, because a damaged segment
  /// contains it: no other segment is rewritten because of that garbage, and no writer waits.
  var cleanableBytes: Int {
    segments.reduce(totalBytes) { $1.isDamaged ? $0 - $1.garbageBytes : $0 }
  }

  var garbage: GarbageFigures {
    GarbageFigures(cleanableBytes: cleanableBytes, liveBytes: liveBytes)
  }

  /// Position of the segment with garbage whose rewriting needs the least space; nil when no
  /// segment has garbage.
  var cheapest: Int? {
    func cost(_ place: Int) -> Int { segments[place].liveBytes + segments[place].keptDeleteBytes }
    return segments.indices.filter { segments[$0].garbageBytes > 0 && !segments[$0].isDamaged }
      .min { cost($0) < cost($1) }
  }

  /// Whether a compaction of everything would release so much that writers can wait for it.
  var isWorthCleaning: Bool {
    let garbage = (segments + open).reduce(0) { $0 + ($1.isDamaged ? 0 : $1.garbageBytes) }
    return garbage > max(FileBlock.lengthBytes, totalBytes / 32)
  }
}

extension CompactionFigures {
  /// Returns the neighbours to rewrite so that the space amplification falls below a limit; nil
  /// when it is below it, or when nothing is worth the work.
  func choice(_ policy: CompactionPolicy, limit: Double) -> Range<Int>? {
    let picker = CompactionPicker(
      // The output and its inputs exist together for a moment.
      segmentSizeBytes: min(segmentSizeBytes, fittingSegmentBytes),
      spaceAmplificationLimit: limit, leastGarbageRatio: 1 - policy.liveRatioLimit)
    return picker.choose(
      Array(segments.prefix { !$0.isPinned }), totalBytes: cleanableBytes,
      totalLiveBytes: Int(clamping: liveBytes))
  }
}

/// The bytes of one segment.
struct SegmentFigures: Equatable {
  /// Length of the records, in bytes, without what every segment has.
  var bytes: Int
  var liveBytes: Int
  /// Bytes of the deletes that a copy would keep: an older segment may contain a record that such a
  /// delete hides, or an iterator of changes has not seen the delete.
  var keptDeleteBytes = 0
  /// Whether compaction cannot read the whole segment: the segment stays as it is, and so does its
  /// garbage.
  var isDamaged = false
  /// Whether the records do not fit into one segment together with those of a neighbour.
  var cannotMerge = false
  /// Whether an iterator of changes still has to see the segment.
  var isPinned = false
  /// Whether compaction wrote the segment.
  var isCompacted = false
  /// Whether the segment may contain records of ordered keyspaces that are not in key order.
  var isUnclustered = false
  /// Length of the file, in bytes.
  var fileBytes = 0

  var garbageBytes: Int { max(0, bytes - liveBytes - keptDeleteBytes) }
  var garbageRatio: Double { bytes == 0 ? 1 : Double(garbageBytes) / Double(bytes) }
}

/// The strategy of the automatic compaction: keeps the garbage within the limit of the policy.
struct BackgroundStrategy: CompactionStrategy {
  let policy: CompactionPolicy

  func next(_ log: CompactionFigures) -> Range<Int>? {
    // Compaction begins a little earlier, so that it has made progress when the limit is reached.
    log.choice(policy, limit: max(1.05, policy.spaceAmplificationLimit - 0.1))
  }

  /// Number of bytes over the limit of the policy. Not an integer: a limit may allow more bytes
  /// than an integer can hold.
  private func debtBytes(_ log: GarbageFigures) -> Double {
    Double(log.cleanableBytes) - Double(log.liveBytes) * policy.spaceAmplificationLimit
  }

  func isOverLimit(_ log: GarbageFigures) -> Bool { debtBytes(log) > 0 }

  /// Garbage over the limit that is not worth a delay, in bytes.
  private static let toleratedBytes = Double(1 << 20)

  /// The garbage of a small store is not worth the wait, and a policy that limits the speed of
  /// compaction does not limit that of writers.
  ///
  /// A share of 1 is an eighth of the live bytes, or 16 MiB in a small store: as much as is written
  /// while a compaction syncs and lists its output.
  func delay(_ log: GarbageFigures) -> WriterDelay {
    let debt = debtBytes(log) - Self.toleratedBytes
    guard policy.rateLimitBytesPerSecond == nil, debt > 0 else { return .none }
    return WriterDelay(share: debt / max(Double(16 << 20), Double(log.liveBytes) / 8))
  }

  func sealsActive(_ log: CompactionFigures) -> Bool {
    guard let active = log.active, isOverLimit(log.garbage) else { return false }
    return active.fileBytes > 1 << 20 && active.liveBytes < active.fileBytes / 4
  }
}

/// The strategy of a store that no task writes to: removes most of the garbage, because nothing
/// else needs the disk.
struct IdleStrategy: CompactionStrategy {
  let policy: CompactionPolicy

  func next(_ log: CompactionFigures) -> Range<Int>? {
    log.choice(policy, limit: policy.idleSpaceAmplificationLimit)
  }

  func sealsActive(_ log: CompactionFigures) -> Bool {
    guard let active = log.active else { return false }
    let allowed = Double(log.liveBytes) * policy.idleSpaceAmplificationLimit
    return Double(log.cleanableBytes) > allowed
      && active.garbageBytes > max(1 << 20, Int(clamping: log.liveBytes / 20))
  }
}

/// The strategy of a compaction on a full disk: garbage is the only space left. It chooses as the
/// automatic compaction does, as long as that finds something.
struct FullDiskStrategy<Automatic: CompactionStrategy>: CompactionStrategy {
  let automatic: Automatic

  func next(_ log: CompactionFigures) -> Range<Int>? {
    automatic.next(log) ?? log.cheapest.map { $0..<$0 + 1 }
  }
}

/// The strategy of ``Store/compact(onProgress:)``: passes over the whole log once, from its
/// beginning to the segments that are sealed when the compaction begins.
struct ThoroughStrategy: CompactionStrategy {
  /// Whether rewriting a segment for the first time may make its values smaller.
  let mayShrink: Bool
  /// Position of the next segment to look at.
  private(set) var start = 0
  /// Number of segments that are left, from `start` on.
  private(set) var remainingCount: Int
  /// The part of the live bytes that is expected to be left of a segment that compaction has not
  /// written.
  var shrinkage = 1.0

  init(_ log: CompactionFigures, mayShrink: Bool) {
    remainingCount = log.segments.count
    self.mayShrink = mayShrink
  }

  var isFinished: Bool { remainingCount == 0 }

  /// Returns the next neighbours, whose live records fit into one segment; nil when nothing would
  /// be gained by rewriting them, or when none are left.
  func next(_ log: CompactionFigures) -> Range<Int>? {
    if isFinished { return nil }
    let window = window(log)
    let isWorthIt =
      window.count > 1
      || log.segments[window].contains {
        $0.garbageBytes > 0 || $0.isUnclustered || (mayShrink && !$0.isCompacted)
      }
    return isWorthIt ? window : nil
  }

  /// Returns the next neighbours, whether or not they are worth rewriting.
  func window(_ log: CompactionFigures) -> Range<Int> {
    window(from: start, count: remainingCount, log)
  }

  private func window(from start: Int, count: Int, _ log: CompactionFigures) -> Range<Int> {
    precondition(start + count <= log.segments.count, "segments vanished under a compaction")
    precondition(start >= 0 && count >= 0, "a window begins or ends before the first segment")
    assert((0...1).contains(shrinkage), "a segment shrinks to less than nothing, or grows")
    let picker = CompactionPicker(
      segmentSizeBytes: log.segmentSizeBytes, spaceAmplificationLimit: 1)
    var expected = Array(log.segments[start..<start + count])
    for place in expected.indices where mayShrink && !expected[place].isCompacted {
      expected[place].liveBytes = Int(Double(expected[place].liveBytes) * shrinkage)
    }
    let window = picker.window(expected, from: 0)
    return start + window.lowerBound..<start + window.upperBound
  }

  /// Leaves segments as they are.
  mutating func skip(_ count: Int) {
    precondition(count <= remainingCount, "more segments are left out than remain")
    assert(count > 0, "a compaction leaves out no segment, and makes no progress")
    start += count
    remainingCount -= count
  }

  /// Begins again, with the segments that are sealed now.
  mutating func restart(_ log: CompactionFigures) {
    (start, remainingCount) = (0, log.segments.count)
  }

  /// Moves on from an output, unless the output became so small that it can be merged with a
  /// neighbour.
  ///
  /// - Parameters:
  ///   - taken: number of segments that were rewritten.
  ///   - left: number of segments that replaced them: none or one.
  ///   - isWhole: whether all segments that ``next(_:)`` returned were rewritten together.
  ///   - log: the figures after the rewriting.
  mutating func recordRewriting(
    taken: Int, left: Int, isWhole: Bool, _ log: CompactionFigures
  ) {
    precondition(
      0...1 ~= left && left <= taken && 0 < taken && taken <= remainingCount,
      "a compaction rewrote more segments than remained, or fewer than it wrote")
    remainingCount -= taken - left
    guard left > 0 else { return }
    func fits(from start: Int, _ count: Int) -> Bool {
      window(from: start, count: count, log).count > 1
    }
    if isWhole, start > 0, fits(from: start - 1, 2) {
      start -= 1
      remainingCount += 1
    } else if !isWhole || !fits(from: start, remainingCount) {
      skip(1)
    }
  }
}

/// Chooses neighbouring segments, which are rewritten as one.
///
/// The choice is greedy by garbage (Rosenblum and Ousterhout, "The design and implementation of a
/// log-structured file system", SOSP 1991), but only among neighbours. So the log stays in the
/// order of sequence numbers, no delete moves ahead of the record that it deletes, and records that
/// are rarely changed stay together.
struct CompactionPicker {
  let segmentSizeBytes: Int
  let spaceAmplificationLimit: Double
  /// A segment whose share of garbage is smaller stays as it is.
  var leastGarbageRatio = 0.05
  /// Garbage that is tolerated in a store of any size, in bytes.
  var garbageFloorBytes = 64 << 10
  /// Number of small neighbours that are merged even without garbage.
  var smallRunCount = 8
  /// Number of segments' lengths that are rewritten together: the space of all inputs is released
  /// at the end.
  var longestRun = 3

  /// - Parameters:
  ///   - segments: the sealed segments, in replay order.
  ///   - totalBytes: length of all segments, the active segment included.
  ///   - totalLiveBytes: length of all live records.
  func choose(
    _ segments: [SegmentFigures], totalBytes: Int, totalLiveBytes: Int
  ) -> Range<Int>? {
    let allowed = Double(totalLiveBytes) * spaceAmplificationLimit + Double(garbageFloorBytes)
    if Double(totalBytes) > allowed, let worst = worst(segments) {
      return extend(worst..<worst + 1, in: segments)
    }
    return smallRun(segments)
  }

  private func worst(_ segments: [SegmentFigures]) -> Int? {
    let sound = segments.indices.filter { !segments[$0].isDamaged }
    let worst = sound.max { segments[$0].garbageRatio < segments[$1].garbageRatio }
    guard let worst, segments[worst].garbageRatio > leastGarbageRatio else { return nil }
    return worst
  }

  /// Adds neighbours that are worth it, as long as all their live records fit into one segment.
  private func extend(_ start: Range<Int>, in segments: [SegmentFigures]) -> Range<Int> {
    if segments[start].contains(where: \.cannotMerge) { return start }
    var run = start
    var live = segments[start].reduce(0) { $0 + $1.liveBytes + $1.keptDeleteBytes }
    var bytes = segments[start].reduce(0) { $0 + $1.bytes }
    func isWorthIt(_ figures: SegmentFigures) -> Bool {
      if figures.isDamaged || figures.cannotMerge { return false }
      if bytes + figures.bytes > longestRun * segmentSizeBytes { return false }
      let isPoor = figures.garbageRatio >= 0.3 || figures.bytes < segmentSizeBytes / 8
      return isPoor && live + figures.liveBytes + figures.keptDeleteBytes <= segmentSizeBytes
    }
    while true {
      if run.lowerBound > 0, isWorthIt(segments[run.lowerBound - 1]) {
        run = run.lowerBound - 1..<run.upperBound
        live += segments[run.lowerBound].liveBytes + segments[run.lowerBound].keptDeleteBytes
        bytes += segments[run.lowerBound].bytes
      } else if run.upperBound < segments.count, isWorthIt(segments[run.upperBound]) {
        live += segments[run.upperBound].liveBytes + segments[run.upperBound].keptDeleteBytes
        bytes += segments[run.upperBound].bytes
        run = run.lowerBound..<run.upperBound + 1
      } else {
        assert(
          run.count == start.count || live <= segmentSizeBytes,
          "the chosen segments do not fit into one")
        return run
      }
    }
  }

  private func smallRun(_ segments: [SegmentFigures]) -> Range<Int>? {
    var start = 0
    var live = 0
    for (index, figures) in segments.enumerated() {
      live += figures.bytes
      let isLarge = figures.bytes >= segmentSizeBytes / 8 || live > segmentSizeBytes
      if isLarge || figures.isDamaged || figures.cannotMerge {
        start = index + 1
        live = 0
      } else if index + 1 - start >= smallRunCount {
        return start..<index + 1
      }
    }
    return nil
  }

  /// Returns the first neighbours from a position on whose live records fit into one segment.
  func window(_ segments: [SegmentFigures], from start: Int) -> Range<Int> {
    var end = start
    var live = 0
    while end < segments.count {
      live += segments[end].liveBytes
      if end > start, live > segmentSizeBytes { break }
      end += 1
    }
    assert(end > start || start >= segments.count, "a window has no segment")
    return start..<end
  }
}
