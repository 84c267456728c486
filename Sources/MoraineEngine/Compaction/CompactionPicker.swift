/// What a choice is made from: a sealed segment's bytes.
struct SegmentFigures: Equatable {
  var bytes: Int
  var liveBytes: Int
  /// Bytes of the deletes that the copy would keep: an older segment may hold what they hide, or an
  /// iterator of changes has not seen them.
  var keptDeleteBytes = 0
  /// Whether it cannot be read whole: it stays as it is, and its garbage with it.
  var isDamaged = false
  /// Whether what it holds does not fit into one segment together with a neighbour's.
  var cannotMerge = false

  var garbageBytes: Int { max(0, bytes - liveBytes - keptDeleteBytes) }
  var garbageRatio: Double { bytes == 0 ? 1 : Double(garbageBytes) / Double(bytes) }
}

/// Chooses which neighbours to rewrite as one segment. Pure: the same figures, the same choice.
///
/// Greedy by garbage (Rosenblum and Ousterhout, "The design and implementation of a log-structured
/// file system", SOSP 1991), but only among neighbours: so the log stays in the order of sequence
/// numbers, a delete never comes to stand ahead of what it deletes, and what is cold stays
/// together.
struct CompactionPicker {
  let segmentSizeBytes: Int
  let spaceAmplificationLimit: Double
  /// A segment with less garbage is left alone.
  var leastGarbageRatio = 0.05
  /// Below this there is no hurry.
  var garbageFloorBytes = 64 << 10
  /// So many small neighbours are joined even without garbage.
  var smallRunCount = 8

  /// - Parameters:
  ///   - segments: the sealed ones, in replay order.
  ///   - totalBytes: of all segments, the active one too.
  ///   - totalLiveBytes: of all segments.
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

  /// Takes in neighbours that are worth it, as long as all that lives fits into one segment.
  private func extend(_ start: Range<Int>, in segments: [SegmentFigures]) -> Range<Int> {
    if segments[start].contains(where: \.cannotMerge) { return start }
    var run = start
    var live = segments[start].reduce(0) { $0 + $1.liveBytes + $1.keptDeleteBytes }
    func isWorthIt(_ figures: SegmentFigures) -> Bool {
      if figures.isDamaged || figures.cannotMerge { return false }
      let isPoor = figures.garbageRatio >= 0.3 || figures.bytes < segmentSizeBytes / 8
      return isPoor && live + figures.liveBytes + figures.keptDeleteBytes <= segmentSizeBytes
    }
    while true {
      if run.lowerBound > 0, isWorthIt(segments[run.lowerBound - 1]) {
        run = run.lowerBound - 1..<run.upperBound
        live += segments[run.lowerBound].liveBytes + segments[run.lowerBound].keptDeleteBytes
      } else if run.upperBound < segments.count, isWorthIt(segments[run.upperBound]) {
        live += segments[run.upperBound].liveBytes + segments[run.upperBound].keptDeleteBytes
        run = run.lowerBound..<run.upperBound + 1
      } else {
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

  /// The first neighbours from a place on that a thorough compaction rewrites: as many as fit.
  func window(_ segments: [SegmentFigures], from start: Int) -> Range<Int> {
    var end = start
    var live = 0
    while end < segments.count {
      live += segments[end].liveBytes
      if end > start, live > segmentSizeBytes { break }
      end += 1
    }
    return start..<end
  }
}
