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
        isDamaged: table.damage[slot] != nil, cannotMerge: table.unmergeable.contains(slot))
    }
  }

  /// What the policy would rewrite next.
  func nextCompaction(_ policy: CompactionPolicy) -> [Int]? {
    let slots = unpinned(compactable())
    let chooser = CompactionPicker(
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
    let chooser = CompactionPicker(
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
      number: takeSegmentNumber(), salt: SystemRandom.number())
    header.flags = [.compacted]
    header.generation = manifest.generation + 1
    header.createdMilliseconds = SystemClock.wallMilliseconds()
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
  mutating func selectLive(
    _ candidates: [CompactionCandidate], cleanedThrough: UInt64
  ) throws(StoreError) -> [Bool] {
    for candidate in candidates { index.prefetch(candidate.hash) }
    if index.needsCare {
      for candidate in candidates where !candidate.isDelete { try validatePages(candidate.hash) }
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
      fatalError("the inputs of a compaction are not in the table any more")
    }
    let range = start..<start + inputs.count
    precondition(
      Array(table.order[range]) == inputs, "the order of segments changed during a compaction")
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
  /// The pages that this touches were checked when ``selectLive(_:cleanedThrough:)`` found the
  /// records live; a page that was checked stays so.
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

/// How much garbage there is, and how urgent that is.
extension EngineState {
  func diskBytes() -> UInt64 { UInt64(totalBytes) }

  private var totalBytes: Int { table.order.reduce(0) { $0 + table[$1].end } }

  /// All but the garbage that must stay, because it is among what is damaged: no other segment has
  /// to be rewritten for its sake, and nobody has to wait.
  var cleanableBytes: Int {
    if table.damage.isEmpty { return totalBytes }
    return figures(compactable()).reduce(totalBytes) { $1.isDamaged ? $0 - $1.garbageBytes : $0 }
  }

  /// Bytes over what the policy allows. Not an integer: a limit may allow more than one holds.
  private func debtBytes(_ policy: CompactionPolicy) -> Double {
    Double(cleanableBytes) - Double(liveBytes) * policy.spaceAmplificationLimit
  }

  /// Whether compaction has no time to lose.
  func isBehind(_ policy: CompactionPolicy) -> Bool { debtBytes(policy) > 0 }

  /// Whether writers must wait for it; small stores are not worth the wait, and who limits its
  /// speed does not mean to limit theirs.
  func isFarBehind(_ policy: CompactionPolicy) -> Bool {
    policy.rateLimitBytesPerSecond == nil && debtBytes(policy) > Double(1 << 20)
  }

  /// Whether the active segment is worth sealing for its garbage alone.
  func isActiveGarbage(_ policy: CompactionPolicy) -> Bool {
    guard let active, !active.hasFooter, isBehind(policy) else { return false }
    let view = table[active.slot]
    return view.end > 1 << 20 && view.liveBytes < UInt64(view.end / 4)
  }

  /// Whether a compaction of everything would give back so much that writers can wait for it.
  func isWorthCleaning() -> Bool {
    let garbage = figures(table.order).reduce(0) { $0 + ($1.isDamaged ? 0 : $1.garbageBytes) }
    return garbage > max(FileBlock.lengthBytes, totalBytes / 32)
  }

  /// The segment with garbage whose rewriting takes the least space; nil when none has any.
  func cheapest() -> Int? {
    let slots = compactable()
    let all = figures(slots)
    let poor = all.indices.filter { all[$0].garbageBytes > 0 && !all[$0].isDamaged }
    func cost(_ index: Int) -> Int { all[index].liveBytes + all[index].keptDeleteBytes }
    return poor.min { cost($0) < cost($1) }.map { slots[$0] }
  }
}

/// Records that a compaction takes for live, summed up for each of its inputs.
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

  /// Whether a segment has just these live records.
  func agrees(with view: SegmentView, of slot: Int) -> Bool {
    let sum = sums[slot] ?? Sum()
    return sum.bytes == view.liveBytes && sum.digest == view.digest
  }
}

extension EngineState {
  func agrees(with selection: LiveSelection, _ slots: [Int]) -> Bool {
    slots.allSatisfy { selection.agrees(with: table[$0], of: $0) }
  }

  /// Adds the copied records that are still live.
  func add(_ relocations: ArraySlice<Relocation>, to selection: inout LiveSelection) {
    for relocation in relocations { index.prefetch(relocation.hash) }
    for relocation in relocations where index.holds(relocation.old, relocation.hash) {
      selection.add(relocation)
    }
  }
}
