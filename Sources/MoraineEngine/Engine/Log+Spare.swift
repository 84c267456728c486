import MoraineFormat
import MoraineStorage

/// The next segment, created before the active segment is full: then no writer waits for its
/// creation.
///
/// The manifest lists a spare segment as open, after the active segment. So a rotation publishes no
/// manifest, and an opening after a kill at any moment finds every record. A recovery removes a
/// spare segment that was never written to.
struct SpareSegment {
  let creation: SegmentCreation
  let created: SegmentCreation.Created
  /// Whether a durable manifest lists the segment. Before that, no record may be written to it.
  var isListed = false

  /// The entry in the manifest: a segment without records.
  var entry: Manifest.Segment {
    let header = creation.header
    return creation.info(of: created).entry(
      SegmentView(
        base: created.mapping?.base, end: header.headerLength, seed: header.checksumSeed))
  }

  /// Returns whether a unit of `count` bytes fits.
  func fits(_ count: Int) -> Bool {
    let end = creation.header.headerLength + count + ActiveSegment.reservedBytes
    return end <= (created.mapping == nil ? created.limit : created.growthLimit)
  }
}

/// The segment that is created ahead of need.
extension Log {
  /// Whether it is time to create the segment after the active one.
  var isSpareDue: Bool {
    guard spare == nil, let active, !active.hasFooter else { return false }
    return active.needsSpare && table.vacancyCount > 2
  }

  /// The least length of a segment that is ended early. Shorter ones would be too many.
  private static let leastEndedBytes = 64 << 10

  /// Whether the active segment may be ended early, and contains the operation.
  func mayEnd(through sequence: UInt64) -> Bool {
    guard let active, !active.hasFooter, active.limit >= configuration.spareFloorBytes else {
      return false
    }
    let view = table[active.slot]
    let least = min(Self.leastEndedBytes, active.limit / 4)
    return view.recordCount > 0 && view.firstSequence <= sequence && view.end >= least
  }

  /// Notes that an append of `count` bytes passes the middle of the active segment.
  mutating func passMiddle(_ count: Int) {
    guard var passing = active, table[passing.slot].end + count > passing.middle else { return }
    passing.middle = .max
    passing.needsSpare = passing.limit >= configuration.spareFloorBytes
    active = passing
  }

  /// Raises the limit of the active segment, so that `count` bytes fit, while the next segment is
  /// being created.
  ///
  /// - Returns: false when the mapping ends.
  mutating func growActive(for count: Int) -> Bool {
    guard let active, !active.hasFooter, active.allocated != nil else { return false }
    let needed = table[active.slot].end + count + ActiveSegment.reservedBytes
    guard needed <= active.growthLimit else { return false }
    let limit = min(active.growthLimit, max(needed, active.limit + Self.largestStep))
    assert(limit >= active.limit, "a segment's limit falls")
    self.active?.limit = limit
    return true
  }

  /// Sets the offset at which writers pause next, or at which it is decided again.
  ///
  /// - Parameters:
  ///   - bytes: number of bytes until then; nil when no pause is due.
  ///   - count: length of the unit that is about to be appended.
  mutating func setPause(after bytes: Int?, for count: Int) {
    guard let active else { return }
    assert(bytes.map { $0 >= count } ?? true, "a writer pauses inside a unit")
    // Where no space is allocated ahead, nothing else makes a writer ask again.
    let most = active.allocated == nil && link == nil ? max(count, Self.largestStep) : nil
    let end = (bytes ?? most).map { table[active.slot].end + $0 } ?? .max
    if active.pauseEnd != end { self.active?.pauseEnd = end }
  }

  /// Postpones the next pause of a writer, where one is due: for an append of `count` bytes that
  /// does not wait.
  mutating func postponePause(for count: Int) {
    guard let active, active.pauseEnd != .max else { return }
    setPause(after: max(count, ActiveSegment.smallestAllocation), for: count)
  }

  /// Makes the spare segment the active one, for a unit of `count` bytes, which fits.
  ///
  /// - Returns: the segment that was active before, with its footer written.
  mutating func adopt(
    _ spare: SpareSegment, for count: Int
  ) -> (segment: ActiveSegment, markedOffset: Int)? {
    precondition(spare.isListed, "records are written to a segment that no manifest lists")
    assert(spare.fits(count), "a segment is too small for its first unit")
    self.spare = nil
    let full = adopt(spare.created, spare.creation)
    if capacity(for: count) == .rotate {
      let hasGrown = growActive(for: count)
      assert(hasGrown, "a segment cannot hold its first unit")
    }
    return full
  }
}
