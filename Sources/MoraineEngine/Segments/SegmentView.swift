import MoraineFormat
import MoraineStorage

/// The facts about a segment that every operation needs.
struct SegmentView {
  /// The mapping, or nil where records are read with `read`.
  var base: UnsafeMutableRawPointer?
  /// Offset of the first record.
  let firstOffset: Int
  /// End of the last valid record.
  var end: Int
  /// End of the part in which operations begin. After it, a segment with a value of about 1 GiB may
  /// have marks and a footer, whose offsets an ``Address`` cannot hold.
  var operationsEnd: Int { min(end, StoreLimits.recordOffsetBytes) }
  let seed: Checksum
  /// Length of the dictionary that follows the fixed part of the header; 0 when there is none.
  var dictionaryLength = 0
  var recordCount: UInt64 = 0
  var firstSequence: UInt64 = 0
  var lastSequence: UInt64 = 0
  private(set) var liveBytes: UInt64 = 0
  /// Live bytes, bounded for use in calculations. ``liveBytes`` can begin with the figure of a
  /// forged checkpoint, and then falls below zero.
  var boundedLiveBytes: Int { Int(truncatingIfNeeded: min(liveBytes, UInt64(end))) }
  /// Digest of the live records alone. When compaction has moved all of them elsewhere, it must be
  /// empty.
  private(set) var digest = StateDigest()
  /// Bytes of the deletes.
  var deleteBytes: UInt64 = 0
  /// The earliest expiry of a record, in milliseconds since 1970.
  var earliestExpiry = UInt64.max
  /// In a segment that compaction wrote: the sequence number up to which no delete hides a record
  /// of the segment.
  var cleanedThrough: UInt64 = 0

  /// Creates the view of an empty segment: its first record will begin at `end`.
  init(base: UnsafeMutableRawPointer?, end: Int, seed: Checksum) {
    self.base = base
    firstOffset = end
    self.end = end
    self.seed = seed
  }
}

/// The other facts about a segment.
struct SegmentInfo {
  var number: SegmentNumber
  var epoch: UInt64
  var salt: UInt64
  var flags: Manifest.Segment.Flags = []
  var mapping: (any FileMapping)?
  /// The dictionary, as it was when the header's checksum was verified. The checksums of the
  /// records do not cover the dictionary, so the bytes in a mapping are not read again. A
  /// thousandth of the data at most.
  var dictionary: [UInt8] = []

  /// Live bytes that a compaction has copied to this segment and not removed from their old
  /// segments yet.
  var incomingBytes: UInt64 = 0
  /// Whether compaction wrote the segment, and has looked for a dictionary then.
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
  /// Counts a record of the segment that became live.
  ///
  /// - Parameters:
  ///   - size: length of the record, in bytes.
  ///   - mixed: the record's part of the digest.
  @inline(__always)
  mutating func gain(_ size: UInt64, _ mixed: StateDigest) {
    liveBytes &+= size
    digest.add(mixed)
  }

  /// Subtracts a record of the segment that is no longer live.
  @inline(__always)
  mutating func lose(_ size: UInt64, _ mixed: StateDigest) {
    liveBytes &-= size
    digest.remove(mixed)
  }

  /// Applies the figures of the segment in a checkpoint.
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

  /// Resets the figures to those of a segment of which no record was read.
  mutating func forgetFigures() {
    end = firstOffset
    (recordCount, firstSequence, lastSequence) = (0, 0, 0)
    (liveBytes, deleteBytes, digest) = (0, 0, StateDigest())
    (earliestExpiry, cleanedThrough) = (.max, 0)
  }

  /// Returns whether the manifest counts the records that were read.
  func agrees(with entry: Manifest.Segment) -> Bool {
    recordCount == entry.recordCount && firstSequence == entry.firstSequence.rawValue
      && lastSequence == entry.lastSequence.rawValue
  }

  /// Returns the segment's figures for a checkpoint.
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
