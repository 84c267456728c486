import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// Validates the whole index at once: for a snapshot, which many threads read without the actor,
  /// and for work that reads the whole log on the actor and takes longer than the validation.
  ///
  /// - Complexity: O(index), the first time.
  mutating func validateAllPages() throws(StoreError) {
    if !live.index.validateAllPages() || !live.trees.validateAllPages() {
      try replaceDamagedIndex()
    }
  }

  /// Validates a part of the index that takes less than a millisecond.
  ///
  /// - Returns: whether more pages must be validated.
  mutating func validateNextPages() throws(StoreError) -> Bool {
    if !live.index.hasUnvalidatedPages { return try validateNextNodes() }
    if !live.index.validateNextPages() { try replaceDamagedIndex() }
    return live.index.hasUnvalidatedPages || live.trees.hasUnvalidatedPages
  }

  /// Validates a part of the trees of ordered keyspaces that takes less than a millisecond.
  ///
  /// - Returns: whether more nodes must be validated.
  mutating func validateNextNodes() throws(StoreError) -> Bool {
    if !live.trees.validateNextPages() { try replaceDamagedIndex() }
    return live.trees.hasUnvalidatedPages
  }

  /// Returns an image of the index and of the segments that it covers, as they are now. No
  /// compaction is under way. The caller has validated the index with ``validateNextPages()``
  /// before.
  mutating func checkpointImage() throws(StoreError) -> CheckpointImage {
    try validateAllPages()
    var header = CheckpointHeader(storeID: log.manifest.storeID)
    header.epoch = log.manifest.epoch
    header.lastSequence = log.lastSequence
    header.digest = live.digest
    header.segments = log.table.order.map { slot in
      // In the active segment, a sync of everything published makes the bytes up to here durable.
      let end =
        slot == log.active?.slot
        ? min(log.table[slot].end, Int(pipeline.appendedOffset.load(ordering: .relaxed)))
        : log.table[slot].end
      return log.table[slot].covered(log.table.infos[slot], slot: slot, end: end)
    }
    if let active = log.active,
      let place = header.segments.firstIndex(where: { $0.slot == active.slot })
    {
      let end = Int(clamping: header.segments[place].endOffset)
      header.segments[place].tailChecksum = try tailChecksum(active, end)
    }
    header.keyspaces = live.keyspaces.checkpointed(keyspaces.listedIDs)
    return CheckpointImage(header, of: &live.index, &live.trees)
  }

  /// Returns the checksum of the last bytes that a checkpoint covers in the active segment. The
  /// segment may have lost these bytes when it is opened.
  private func tailChecksum(
    _ active: ActiveSegment, _ end: Int
  ) throws(StoreError) -> UInt32 {
    let source = ByteSource(
      file: active.file, name: log.table.fileName(active.slot), length: end,
      mapping: active.mapping)
    return try source.tailChecksum(from: log.table[active.slot].firstOffset, to: end)
  }

  /// Returns the name of a checkpoint of this moment, which contains the number of the last covered
  /// segment.
  func checkpointName() -> String {
    FileName.checkpoint(
      log.table.order.last.map { log.table.infos[$0].number } ?? SegmentNumber(rawValue: 1))
  }

  /// Rebuilds the index because pages that were loaded are damaged, and reports that.
  ///
  /// - Throws: as ``rebuildIndex()``.
  mutating func replaceDamagedIndex() throws(StoreError) {
    try rebuildIndex()
    report.checkpointProblem = .indexDamaged(
      "pages of the index checkpoint are damaged, or contradict its header", nil)
  }

  /// Builds the index and every figure again from the log, because the checkpoint that they were
  /// loaded from is damaged, or contradicts the log.
  ///
  /// - Throws: `.corrupted` when the log contradicts itself, `.io`; the state is then unchanged.
  /// - Complexity: O(bytes of the log), on the calling thread: the case is rare.
  mutating func rebuildIndex() throws(StoreError) {
    var before = try LiveIndex(ordered: live.trees.ordered)
    swap(&before, &live)
    let slots = log.table.readingOrder
    let views = slots.map { log.table[$0] }
    let (last, isFollowed) = (log.lastSequence, isFollowedInPart)
    defer { (log.lastSequence, isFollowedInPart) = (last, isFollowed) }
    do throws(StoreError) {
      // A compaction still needs the memory that it has taken ahead.
      try live.beginMoves(before.index.movesUnderWay)
      log.lastSequence = 0
      let entries = log.manifest.entriesByNumber
      for slot in slots {
        // While a compaction moves records, the order contains originals and their copies.
        if log.table.isRetiring { log.lastSequence = 0 }
        try rebuildFigures(slot, entries[log.table.infos[slot].number])
      }
      try checkStrayKeys()
      // Marks and footers written since opening have a digest that began with a wrong one.
      if live.digest != before.digest {
        log.manifest.compactedThrough = SequenceNumber(rawValue: max(last, log.lastSequence))
      }
      rebuildCount += 1
      recent.markStale()
    } catch {
      swap(&before, &live)
      strayKeyCount = 0
      for (slot, view) in zip(slots, views) {
        log.table[slot] = view
        log.table.forgetRun(of: slot)
        log.table.noteUnreadExpiries(of: slot)
      }
      throw error
    }
  }

  /// Replays a segment as opening without a checkpoint does. Digests in marks that this process has
  /// written do not check the records, and are not compared.
  private mutating func rebuildFigures(
    _ slot: Int, _ entry: Manifest.Segment?
  ) throws(StoreError) {
    let end = log.table[slot].end
    log.table[slot].forgetFigures()
    log.table.forgetRun(of: slot)
    let result = try replayOn(
      slot, length: end, digestsThrough: report.lastSequence.rawValue)
    guard result.validEnd == end else {
      let stop = result.stop ?? (result.validEnd, "incomplete batch: its last record is missing")
      throw .corrupted(stop.reason, log.table.fileName(slot), at: stop.offset)
    }
    guard let entry, entry.isSealed else { return }
    guard log.table[slot].agrees(with: entry) else {
      throw .corrupted(
        "the segment's records do not match its manifest entry", log.table.fileName(slot), at: 0)
    }
  }

  /// Does one step of making a sparse index smaller, which takes less than a millisecond: validates
  /// pages that were loaded from a checkpoint, or merges buckets. Reads no record.
  ///
  /// - Returns: whether more steps are necessary.
  /// - Throws: as ``rebuildIndex()``, when a page of the checkpoint is damaged; `.limitExceeded`
  ///   when there is no memory for copies of pages that a snapshot has.
  mutating func shrinkIndexStep() throws(StoreError) -> Bool {
    if live.index.hasUnvalidatedPages {
      _ = try validateNextPages()
      return true
    }
    return try live.index.shrinkByAStep()
  }
}

extension Manifest {
  var entriesByNumber: [SegmentNumber: Segment] {
    Dictionary(segments.map { ($0.number, $0) }, uniquingKeysWith: { $1 })
  }
}
