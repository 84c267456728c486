import MoraineFormat
import MoraineStorage

/// How much of a segment a state in the past has: all units whose operations it has.
struct SegmentCut {
  var offset: Int
  var recordCount: UInt64 = 0
  var firstSequence: UInt64 = 0
  var lastSequence: UInt64 = 0

  /// - Throws: `.corrupted` when the segment is not what was written.
  init(
    of name: String, in directory: any StorageDirectory, lengthBytes: Int,
    through sequence: SequenceNumber
  ) throws(StoreError) {
    guard
      let source = try SegmentOpening.source(
        directory, name, limit: lengthBytes, mapped: false)
    else { throw .corrupted("a segment file is missing", name, at: 0) }
    let header = try SegmentOpening.header(source, name)
    offset = header.headerLength
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    var unit = SegmentCut(offset: header.headerLength)
    while true {
      switch try scanner.next() {
      case .stop(let reason): throw .corrupted(reason, name, at: scanner.offset)
      case .end: return
      case .record(let record):
        let header = record.reference.header
        guard header.kind.isOperation else { continue }
        guard header.sequence <= sequence.rawValue else { return }
        if unit.recordCount == 0 { unit.firstSequence = header.sequence }
        unit.recordCount += 1
        unit.lastSequence = header.sequence
        if header.batch == .more { continue }
        unit.offset = scanner.offset
        append(unit)
        unit = SegmentCut(offset: scanner.offset)
      }
    }
  }

  private init(offset: Int) { self.offset = offset }

  private mutating func append(_ unit: SegmentCut) {
    if recordCount == 0 { firstSequence = unit.firstSequence }
    recordCount += unit.recordCount
    lastSequence = unit.lastSequence
    offset = unit.offset
  }

  func entry(_ whole: Manifest.Segment) -> Manifest.Segment {
    var entry = whole
    entry.flags.insert(.cut)
    entry.lengthBytes = UInt64(offset)
    entry.recordCount = recordCount
    entry.firstSequence = SequenceNumber(rawValue: firstSequence)
    entry.lastSequence = SequenceNumber(rawValue: lastSequence)
    return entry
  }
}
