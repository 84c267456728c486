import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// The sealed segments that compaction may rewrite, in replay order: all before the open ones.
  func compactable() -> [Int] {
    Array(table.order.prefix { table.infos[$0].flags.contains(.sealed) })
  }

  /// - Parameter slots: neighbours from the log's beginning on.
  func figures(_ slots: [Int]) -> [SegmentFigures] {
    var cleaned = UInt64.max
    let pin = observers.pins.leastSequence
    return slots.map { slot in
      let view = table[slot]
      defer { cleaned = min(cleaned, view.cleanedThrough) }
      // What no segment is without is no garbage.
      let overhead =
        view.firstOffset
        + (table.infos[slot].flags.contains(.cut) ? 0 : SegmentFooter.recordLength)
      return SegmentFigures(
        bytes: view.end - overhead, liveBytes: view.boundedLiveBytes,
        keptDeleteBytes: view.lastSequence <= Self.lastDroppableDelete(cleaned, pin: pin)
          ? 0 : Int(clamping: view.deleteBytes),
        isDamaged: table.damage[slot] != nil, isRewrittenAlone: table.rewrittenAlone.contains(slot))
    }
  }

  /// What the policy would rewrite next.
  func nextCompaction(_ policy: CompactionPolicy) -> [Int]? {
    let slots = unpinned(compactable())
    let chooser = CompactionChooser(
      // Output and inputs are there together for a moment.
      segmentSizeBytes: min(configuration.segmentSizeBytes, fittingSegmentBytes),
      // It begins a little before, so that it has come some way when the limit is reached.
      spaceAmplificationLimit: max(1.05, policy.spaceAmplificationLimit - 0.1),
      leastGarbageRatio: 1 - policy.liveRatioLimit)
    let run = chooser.choose(
      figures(slots), totalBytes: cleanableBytes, totalLiveBytes: Int(clamping: liveBytes))
    return run.map { Array(slots[$0]) }
  }

  /// Those that no iterator of changes has still to see, unless that has become too much.
  private func unpinned(_ slots: [Int]) -> [Int] {
    let least = observers.pins.leastSequence
    let free = slots.prefix { table[$0].lastSequence <= least }
    let keptBytes = slots[free.count...].reduce(0) { $0 + table[$1].end }
    let limitBytes = observers.pins.limitBytes.load(ordering: .relaxed)
    return keptBytes > limitBytes ? slots : Array(free)
  }

  /// The neighbours that a thorough compaction looks at together, among `count` from a place on.
  ///
  /// - Parameter shrinkage: what part is expected to be left of those that were never rewritten.
  func thoroughWindow(
    from start: Int, count: Int, _ shrinkage: Double
  ) -> (slots: [Int], bytes: UInt64, isWorthIt: Bool) {
    let slots = Array(compactable()[start..<start + count])
    let all = figures(Array(compactable()[..<(start + count)]))
    let mayShrink = configuration.compaction.sharesDictionaries
    func isNew(_ slot: Int) -> Bool { mayShrink && !table.infos[slot].isCompacted }
    let chooser = CompactionChooser(
      segmentSizeBytes: configuration.segmentSizeBytes, spaceAmplificationLimit: 1)
    let inputs = Array(all[start...])
    var expected = inputs
    for (place, slot) in slots.enumerated() where isNew(slot) {
      expected[place].liveBytes = Int(Double(inputs[place].liveBytes) * shrinkage)
    }
    let window = chooser.window(expected, from: 0)
    let chosen = Array(slots[window])
    let isWorthIt =
      chosen.count > 1 || inputs[window].contains { $0.garbageBytes > 0 }
      || chosen.contains(where: isNew)
    return (chosen, chosen.reduce(0) { $0 + UInt64(table[$1].end) }, isWorthIt)
  }

  func compactionInputs(_ slots: [Int]) -> [CompactionInput] {
    slots.map { slot in
      let view = table[slot]
      return CompactionInput(
        slot: slot, name: table.fileName(slot), mapping: table.infos[slot].mapping,
        firstOffset: view.firstOffset, end: view.end, seed: view.seed,
        dictionaryLength: view.dictionaryLength, liveBytes: view.boundedLiveBytes,
        isCompacted: table.infos[slot].isCompacted)
    }
  }

  /// The header of a segment that compaction will write; its number is used up.
  mutating func compactionHeader() -> SegmentHeader {
    var header = SegmentHeader(
      storeID: manifest.storeID, epoch: manifest.epoch,
      number: takeSegmentNumber(), salt: Machine.randomNumber())
    header.flags = [.compacted]
    header.generation = manifest.generation + 1
    header.createdMilliseconds = Machine.wallMilliseconds()
    return header
  }

  /// Up to which sequence number no segment before this one holds anything that a delete hides.
  func cleanedThrough(before slot: Int) -> UInt64 {
    var cleaned = UInt64.max
    for other in table.order {
      if other == slot { break }
      cleaned = min(cleaned, table[other].cleanedThrough)
    }
    return cleaned
  }

  /// The sequence number of the last delete that compaction may leave out of a segment.
  ///
  /// A delete is left out when every segment ahead of its own was rewritten after the delete had
  /// been made (or there is none): the rewriting dropped what the delete hides. And when the
  /// iterators of changes have seen it. The choice of segments and the copy both ask here: a choice
  /// that counted as garbage what the copy keeps would rewrite the same segments without end.
  ///
  /// - Parameters:
  ///   - cleanedThrough: as ``cleanedThrough(before:)`` answers.
  ///   - pin: as ``FeedPins/leastSequence`` answers.
  private static func lastDroppableDelete(_ cleanedThrough: UInt64, pin: UInt64) -> UInt64 {
    min(cleanedThrough, pin)
  }

  /// Answers which of the records must be copied: live puts, and deletes that an older record or an
  /// iterator of changes may still need.
  ///
  /// Checks the pages of the index that the records need, where it was loaded from a checkpoint.
  ///
  /// - Throws: `.corrupted`, `.io` when a page is damaged and the index cannot be made again.
  mutating func judge(
    _ candidates: [CompactionCandidate], cleanedThrough: UInt64
  ) throws(StoreError) -> [Bool] {
    for candidate in candidates { index.prefetch(candidate.hash) }
    if index.needsCare {
      for candidate in candidates where !candidate.isDelete { try admit(candidate.hash) }
    }
    let droppable = Self.lastDroppableDelete(cleanedThrough, pin: observers.pins.leastSequence)
    return candidates.map { candidate in
      candidate.isDelete
        ? candidate.sequence > droppable
        : index.holds(candidate.address, candidate.hash)
    }
  }

  /// Gives the output its slot and its place in the order, instead of the inputs.
  ///
  /// - Returns: its slot, nil when nothing was worth copying.
  mutating func replaceInputs(
    _ inputs: [Int], with output: CompactionOutput, mapping: (any FileMapping)?, cleaned: UInt64
  ) -> Int? {
    guard let first = inputs.first, let start = table.order.firstIndex(of: first) else {
      fatalError("a compaction's inputs left the store")
    }
    let range = start..<start + inputs.count
    precondition(Array(table.order[range]) == inputs, "the order changed under a compaction")
    guard !output.isEmpty else {
      table.retire(range, for: nil)
      return nil
    }
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
    let slot = table.place(view, info)
    table.retire(range, for: slot)
    return slot
  }

  /// Points index entries at the copies, each only if it still names the record that was copied.
  ///
  /// The pages that this touches were checked when ``judge(_:cleanedThrough:)`` found the records
  /// live; a page that was checked stays so.
  mutating func install(_ relocations: ArraySlice<Relocation>, in slot: Int) {
    for relocation in relocations { index.prefetch(relocation.hash) }
    let copied = relocations.reduce(0) { $0 + UInt64(aligned(Int($1.newLength))) }
    table.infos[slot].incomingBytes -= copied
    for relocation in relocations {
      let place = Address(slot: slot, offset: Int(relocation.newOffset))
      guard index.move(relocation.old, to: place, relocation.hash) else { continue }
      let before = UInt64(aligned(Int(relocation.oldLength)))
      let after = UInt64(aligned(Int(relocation.newLength)))
      let mixed = StateDigest.of(hash: relocation.hash, sequence: relocation.sequence)
      table[relocation.old.slot].liveBytes &-= before
      table[relocation.old.slot].digest.remove(mixed)
      table[slot].liveBytes &+= after
      table[slot].digest.add(mixed)
      liveBytes = liveBytes &- before &+ after
      let keyspace = relocation.keyspace
      if keyspace != 0 { keyspaces[keyspace].liveBytes &+= after &- before }
    }
  }
}
