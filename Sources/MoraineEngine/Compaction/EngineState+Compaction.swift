import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// Returns the sealed segments that compaction may rewrite, in replay order: all segments before
  /// the first open one.
  func compactable() -> [Int] {
    Array(log.table.order.prefix { log.table.infos[$0].flags.contains(.sealed) })
  }

  /// Returns the facts that a ``CompactionStrategy`` decides from.
  func compactionFigures() -> CompactionFigures {
    let sealedCount = compactable().count
    let all = segmentFigures()
    var active: SegmentFigures?
    if let segment = log.active, !segment.hasFooter,
      let place = log.table.order.lastIndex(of: segment.slot)
    {
      active = all[place]
    }
    return CompactionFigures(
      segments: Array(all[..<sealedCount]), open: Array(all[sealedCount...]), active: active,
      totalBytes: Int(clamping: diskBytes()), liveBytes: live.bytes,
      segmentSizeBytes: configuration.segmentSizeBytes, fittingSegmentBytes: fittingSegmentBytes)
  }

  /// Returns the figures of each segment, in replay order.
  private func segmentFigures() -> [SegmentFigures] {
    var cleaned = UInt64.max
    let pin = observers.pins.leastSequence
    let firstPinned = firstPinnedPlace(pin)
    return log.table.order.enumerated().map { place, slot in
      let (view, info) = (log.table[slot], log.table.infos[slot])
      defer { cleaned = min(cleaned, view.cleanedThrough) }
      assert(view.end >= view.firstOffset, "a segment ends inside its header")
      // Every segment has a header and a footer: they are not garbage.
      let overhead =
        view.firstOffset + (info.flags.contains(.cut) ? 0 : SegmentFooter.recordLength)
      return SegmentFigures(
        bytes: view.end - overhead, liveBytes: view.boundedLiveBytes,
        keptDeleteBytes: view.lastSequence <= Self.lastDroppableDelete(cleaned, pin: pin)
          ? 0 : Int(clamping: view.deleteBytes),
        isDamaged: log.table.damage[slot] != nil,
        cannotMerge: log.table.unmergeable.contains(slot), isPinned: place >= firstPinned,
        isCompacted: info.isCompacted, fileBytes: view.end)
    }
  }

  /// Returns the position of the first segment that an iterator of changes still has to see. When
  /// the segments from there on have become too large, no segment counts as pinned.
  private func firstPinnedPlace(_ least: UInt64) -> Int {
    let slots = compactable()
    let free = slots.prefix { log.table[$0].lastSequence <= least }
    let keptBytes = slots[free.count...].reduce(0) { $0 + log.table[$1].end }
    let limitBytes = observers.pins.limitBytes.load(ordering: .relaxed)
    return keptBytes > limitBytes ? slots.count : free.count
  }

  /// Returns the slots of the neighbours that a strategy would rewrite next.
  func nextCompaction(_ strategy: some CompactionStrategy) -> [Int]? {
    strategy.next(compactionFigures()).map { Array(log.table.order[$0]) }
  }

  func compactionInputs(_ slots: [Int]) -> [CompactionInput] {
    slots.map { slot in
      assert(log.table.infos[slot].flags.contains(.sealed), "an open segment is to be rewritten")
      let view = log.table[slot]
      return CompactionInput(
        slot: slot, name: log.table.fileName(slot), mapping: log.table.infos[slot].mapping,
        firstOffset: view.firstOffset, end: view.end, seed: view.seed,
        dictionaryLength: view.dictionaryLength, liveBytes: view.boundedLiveBytes,
        isCompacted: log.table.infos[slot].isCompacted)
    }
  }

  /// Returns the header of the next segment that compaction writes. The segment's number is used up
  /// from now on.
  mutating func compactionHeader() -> SegmentHeader {
    var header = SegmentHeader(
      storeID: log.manifest.storeID, epoch: log.manifest.epoch,
      number: log.takeSegmentNumber(), salt: SystemRandom.number())
    header.flags = [.compacted]
    header.generation = log.manifest.generation + 1
    header.createdMilliseconds = SystemClock.wallMilliseconds()
    return header
  }

  /// Returns the sequence number up to which no delete hides a record in the segments before this
  /// one.
  func cleanedThrough(before slot: Int) -> UInt64 {
    assert(log.table.order.contains(slot), "a segment that is rewritten is not in the log")
    var cleaned = UInt64.max
    for other in log.table.order {
      if other == slot { break }
      cleaned = min(cleaned, log.table[other].cleanedThrough)
    }
    return cleaned
  }

  /// Returns the sequence number of the last delete that compaction may leave out of a segment.
  ///
  /// A delete is left out when two conditions hold. Every segment before the delete's own segment
  /// was rewritten after the delete was appended (or no such segment exists): the rewriting dropped
  /// the records that the delete hides. And all iterators of changes have seen the delete. The
  /// choice of segments and the copy both use this function: if the choice counted records as
  /// garbage that the copy keeps, the same segments would be rewritten without end.
  ///
  /// - Parameters:
  ///   - cleanedThrough: the result of ``cleanedThrough(before:)``.
  ///   - pin: the value of ``FeedPins/leastSequence``.
  private static func lastDroppableDelete(_ cleanedThrough: UInt64, pin: UInt64) -> UInt64 {
    min(cleanedThrough, pin)
  }

  /// Returns for each record whether it must be copied. Copied are live puts, and deletes that may
  /// still hide an older record or that an iterator of changes has not seen.
  ///
  /// Validates the pages of the index that the records need, when the index was loaded from a
  /// checkpoint.
  ///
  /// - Throws: `.corrupted`, `.io` when a page is damaged and the index cannot be rebuilt.
  mutating func selectLive(
    _ candidates: [CompactionCandidate], cleanedThrough: UInt64
  ) throws(StoreError) -> [Bool] {
    for candidate in candidates { live.index.prefetch(candidate.hash) }
    if live.index.needsCare {
      for candidate in candidates where !candidate.isDelete { try validatePages(candidate.hash) }
    }
    let droppable = Self.lastDroppableDelete(cleanedThrough, pin: observers.pins.leastSequence)
    return candidates.map { candidate in
      candidate.isDelete
        ? candidate.sequence > droppable
        : live.index.holds(candidate.address, candidate.hash)
    }
  }

  /// Replaces the inputs by the output in the order of the segments.
  ///
  /// - Returns: the slot of the output; nil when no record was copied.
  mutating func replaceInputs(
    _ inputs: [Int], with output: CompactionOutput, mapping: (any FileMapping)?, cleaned: UInt64
  ) -> Int? {
    guard let first = inputs.first, let start = log.table.order.firstIndex(of: first) else {
      fatalError("the inputs of a compaction are not in the table any more")
    }
    precondition(!log.table.isRetiring, "the inputs of another compaction are not removed yet")
    assert(cleaned <= log.lastSequence, "an output is clean of deletes that were never made")
    let range = start..<start + inputs.count
    precondition(
      Array(log.table.order[range]) == inputs, "the order of segments changed during a compaction")
    guard !output.isEmpty else {
      log.table.retire(range, for: nil)
      return nil
    }
    assert(
      mapping.map { $0.lengthBytes >= output.lengthBytes } ?? true,
      "an output is longer than its mapping")
    let dictionary = output.header.dictionary
    var view = SegmentView(
      base: mapping?.base, end: output.header.headerLength, seed: output.header.checksumSeed)
    view.end = output.lengthBytes
    view.dictionaryLength = dictionary.count
    view.recordCount = output.recordCount
    view.firstSequence = output.firstSequence
    view.lastSequence = output.lastSequence
    view.deleteBytes = UInt64(output.deleteBytes)
    view.earliestExpiry = output.earliestExpiry
    view.cleanedThrough = cleaned
    var info = SegmentInfo(
      number: output.header.number, epoch: output.header.epoch, salt: output.header.salt,
      mapping: mapping, dictionary: dictionary)
    info.flags = [.sealed, .compacted]
    info.incomingBytes = output.liveBytes
    let slot = log.table.place(view, info)
    log.table.retire(range, for: slot)
    assert(log.table.order[start] == slot, "an output is not at the place of its inputs")
    assert(
      Set(log.table.readingOrder).count == log.table.readingOrder.count,
      "a segment is in the log twice")
    return slot
  }

  /// Lets index entries name the copies, if they still name the records that were copied.
  ///
  /// The pages of these entries were validated when ``selectLive(_:cleanedThrough:)`` selected the
  /// records; a validated page stays valid.
  mutating func install(_ relocations: ArraySlice<Relocation>, in slot: Int) {
    assert(log.table.order.contains(slot), "copies are installed in a segment outside the log")
    for relocation in relocations { live.index.prefetch(relocation.hash) }
    let copied = relocations.reduce(0) { $0 + UInt64(aligned(Int($1.newLength))) }
    log.table.infos[slot].incomingBytes -= copied
    for relocation in relocations {
      let place = Address(slot: slot, offset: Int(relocation.newOffset))
      assert(relocation.old.slot != slot, "a record was copied to its own segment")
      assert(
        place.offset + Int(relocation.newLength) <= log.table[slot].end,
        "a copy ends after its segment")
      live.relocate(relocation, to: place, in: log.table)
    }
  }
}

extension EngineState {
  /// Returns the total length of all segments.
  func diskBytes() -> UInt64 {
    UInt64(log.table.order.reduce(0) { $0 + log.table[$1].end })
  }
}

/// The bytes and the digest of the records that a compaction has selected as live, for each input.
struct LiveSelection {
  private struct Sum: Equatable {
    var bytes: UInt64 = 0
    var digest = StateDigest()
  }

  private var sums: [Int: Sum] = [:]

  mutating func add(_ candidate: CompactionCandidate) {
    add(candidate.address.slot, candidate.length, candidate.hash, candidate.sequence)
  }

  mutating func add(_ relocation: Relocation) {
    add(
      relocation.old.slot, Int(relocation.oldLength), relocation.hash, relocation.sequence)
  }

  private mutating func add(_ slot: Int, _ length: Int, _ hash: UInt64, _ sequence: UInt64) {
    sums[slot, default: Sum()].bytes += UInt64(aligned(length))
    sums[slot, default: Sum()].digest.add(hash: hash, sequence: sequence)
  }

  /// Returns whether a segment has exactly these live records.
  func agrees(with view: SegmentView, of slot: Int) -> Bool {
    let sum = sums[slot] ?? Sum()
    return sum.bytes == view.liveBytes && sum.digest == view.digest
  }
}

extension EngineState {
  func agrees(with selection: LiveSelection, _ slots: [Int]) -> Bool {
    slots.allSatisfy { selection.agrees(with: log.table[$0], of: $0) }
  }

  /// Adds the copied records that are still live.
  func add(_ relocations: ArraySlice<Relocation>, to selection: inout LiveSelection) {
    for relocation in relocations { live.index.prefetch(relocation.hash) }
    for relocation in relocations where live.index.holds(relocation.old, relocation.hash) {
      selection.add(relocation)
    }
  }
}
