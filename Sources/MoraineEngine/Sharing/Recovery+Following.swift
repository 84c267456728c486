import MoraineFormat

/// Reading beside processes that write.
extension Recovery {
  /// How long a segment that nobody has sealed may become; nil in a process that is alone.
  func growth(of entry: Manifest.Segment) -> Int? {
    guard let following else { return nil }
    let isTail = following.tailSegment == entry.number.rawValue
    return isTail ? max(following.tailLimit, following.tailEnd) : 0
  }

  /// Takes in what was published of a segment that others append to; nothing of one that is newer
  /// than what was published.
  func followOpen(
    _ entry: Manifest.Segment, _ known: SegmentOpening.Opened?, _ following: SharedPage.Snapshot,
    _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    let slot: Int
    if let known {
      slot = known.slot
      state.lastSequence = max(state.lastSequence, known.lastSequence)
    } else {
      let length = Int(clamping: listing.segments[entry.number] ?? 0)
      slot = try SegmentOpening.add(
        entry, &state, length: length, growingTo: growth(of: entry)
      ).slot
    }
    guard following.tailSegment == entry.number.rawValue else { return }
    report.replayedBytes += UInt64(max(0, following.tailEnd - state.table[slot].end))
    try state.replayTail(slot, to: following.tailEnd)
  }
}
