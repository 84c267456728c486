import MoraineFormat

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
