import MoraineFormat
import MoraineStorage

/// What every operation needs of a segment.
struct SegmentView {
  /// The mapping, or nil where records are read with `read`.
  var base: UnsafeMutableRawPointer?
  /// Where the first record is.
  let firstOffset: Int
  /// Behind the last valid record.
  var end: Int
  let seed: Checksum
  /// Of the dictionary behind the header's fixed part; 0 when there is none.
  var dictionaryLength = 0
  var recordCount: UInt64 = 0
  var firstSequence: UInt64 = 0
  var lastSequence: UInt64 = 0
  var liveBytes: UInt64 = 0
  /// Live bytes that a calculation may use. ``liveBytes`` can begin with a figure that a forged
  /// checkpoint has, and then runs below zero.
  var boundedLiveBytes: Int { Int(truncatingIfNeeded: min(liveBytes, UInt64(end))) }
  /// Of its live records alone: what compaction moves elsewhere must leave nothing behind.
  var digest = StateDigest()
  /// Bytes of its deletes.
  var deleteBytes: UInt64 = 0
  /// When the first of its records expires, in milliseconds since 1970.
  var earliestExpiry = UInt64.max
  /// When it was written by compaction: it holds nothing that a delete up to here hides.
  var cleanedThrough: UInt64 = 0

  /// An empty segment: its first record will be where it ends now.
  init(base: UnsafeMutableRawPointer?, end: Int, seed: Checksum) {
    self.base = base
    firstOffset = end
    self.end = end
    self.seed = seed
  }
}

/// The rest of what is known of a segment.
struct SegmentInfo {
  var number: SegmentNumber
  var epoch: UInt64
  var salt: UInt64
  var flags: Manifest.Segment.Flags = []
  var mapping: (any FileMapping)?
  /// The dictionary, as it was when the header's checksum proved it: the records' checksums do not
  /// cover it, so what lies in a mapping is not asked again. A thousandth of the data at most.
  var dictionary: [UInt8] = []

  /// Live bytes that a compaction has copied to it and not taken from their old segments yet.
  var incomingBytes: UInt64 = 0
  /// Whether compaction wrote it, and has looked for a dictionary then.
  var isCompacted: Bool { flags.contains(.compacted) }

  func entry(_ view: SegmentView) -> Manifest.Segment {
    var entry = Manifest.Segment(number: number, epoch: epoch)
    entry.flags = flags
    guard flags.contains(.sealed) else { return entry }
    entry.lengthBytes = UInt64(view.end)
    entry.recordCount = view.recordCount
    entry.firstSequence = SequenceNumber(rawValue: view.firstSequence)
    entry.lastSequence = SequenceNumber(rawValue: view.lastSequence)
    entry.liveBytes = min(UInt64(view.boundedLiveBytes) + incomingBytes, entry.lengthBytes)
    return entry
  }
}

extension SegmentView {
  /// Takes over what a checkpoint says of the segment.
  mutating func adopt(_ covered: CheckpointHeader.Segment) {
    end = Int(clamping: covered.endOffset)
    recordCount = covered.recordCount
    firstSequence = covered.firstSequence
    lastSequence = covered.lastSequence
    liveBytes = covered.liveBytes
    digest = covered.digest
    deleteBytes = covered.deleteBytes
    earliestExpiry = covered.earliestExpiry
    cleanedThrough = covered.cleanedThrough
  }

  /// Begins again as a segment of which no record was read.
  mutating func forgetFigures() {
    end = firstOffset
    (recordCount, firstSequence, lastSequence) = (0, 0, 0)
    (liveBytes, deleteBytes, digest) = (0, 0, StateDigest())
    (earliestExpiry, cleanedThrough) = (.max, 0)
  }

  /// Whether the manifest counts the records that were read.
  func agrees(with entry: Manifest.Segment) -> Bool {
    recordCount == entry.recordCount && firstSequence == entry.firstSequence.rawValue
      && lastSequence == entry.lastSequence.rawValue
  }

  /// What a checkpoint says of the segment.
  func covered(_ info: SegmentInfo, slot: Int, end: Int) -> CheckpointHeader.Segment {
    var result = CheckpointHeader.Segment(number: info.number)
    result.slot = UInt32(slot)
    result.salt = info.salt
    result.epoch = info.epoch
    result.endOffset = UInt64(end)
    result.recordCount = recordCount
    result.firstSequence = firstSequence
    result.lastSequence = lastSequence
    result.liveBytes = liveBytes
    result.digest = digest
    result.deleteBytes = deleteBytes
    result.earliestExpiry = earliestExpiry
    result.cleanedThrough = cleanedThrough
    return result
  }
}
