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
    creation.header.headerLength + count + ActiveSegment.reservedBytes <= created.limit
  }
}
