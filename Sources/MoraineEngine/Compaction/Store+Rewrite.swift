import MoraineFormat
import MoraineStorage

extension Store {
  /// Rewrites neighbours as one segment, or drops them when they contain nothing live.
  ///
  /// - Parameters:
  ///   - limitBytes: length of the output after which the remaining neighbours may be left out.
  ///   - cannotMerge: whether the segment could not be rewritten together with its neighbours.
  ///   - isSecondAttempt: whether the index was rebuilt from the log for this attempt.
  /// - Returns: how many segments, from the first on, were rewritten, and how many took their
  ///   place: none or one.
  func rewrite(
    _ wanted: [Int], _ work: CompactionWork, limitBytes: Int = .max, cannotMerge: Bool = false,
    isSecondAttempt: Bool = false
  ) async throws(StoreError) -> (taken: Int, left: Int) {
    precondition(!wanted.isEmpty, "a compaction has no inputs")
    let began = SystemClock.monotonicNanoseconds()
    try engine!.checkChangeable()
    guard engine!.log.table.vacancyCount > 0 else { throw SegmentTable.full }
    assert(!engine!.log.table.isRetiring, "another compaction has not ended")
    let directory = engine!.directoryHandle()
    let reader = CompactionReader(
      engine!.compactionInputs(wanted), directory, engine!.log.manifest.hashKey,
      engine!.live.trees.ordered)
    let output = CompactionOutput(
      engine!.compactionHeader(wanted), directory, limitBytes: work.outputLimitBytes)
    let pipeline = pipeline
    let slots: [Int]
    let newSlot: Int?
    var isContradicted = false
    do throws(StoreError) {
      try await validateNodes()
      output.share(try await sharedDictionary(for: reader.inputs, work))
      let (count, cleaned) = try await copy(wanted, reader, output, work, limitBytes)
      // What was left out is hidden by operations up to this one.
      let hiding = pipeline.lastAppended
      slots = Array(wanted[..<count])
      try await work.thread.run { () throws(StoreError) in try output.finish(pipeline) }
      guard await accountsForLive(slots, output) else {
        isContradicted = true
        throw .indexDamaged("the index lacks live records", checkpoints.names.first)
      }
      newSlot = try await publish(slots, output, cleaned, hiding: hiding, on: work.thread)
    } catch {
      if error.code == .corrupted, !isContradicted {
        engine!.log.table.noteDamage(error, among: wanted)
      }
      if !pipeline.hasPoison {
        // Throw the first error: later errors are mostly its consequence. The next opening of the
        // store removes a file that is left.
        do throws(StoreError) {
          try await work.thread.run { () throws(StoreError) in try output.discard() }
        } catch {}
      }
      if isContradicted {
        if isSecondAttempt {
          pipeline.poison(error)
          throw error
        }
        try await discardCheckpoint()
        return try await rewrite(
          wanted, work, limitBytes: limitBytes, cannotMerge: cannotMerge,
          isSecondAttempt: true)
      }
      // A segment that is rewritten alone keeps its dictionary, so its records do not grow.
      guard error.code == .limitExceeded, wanted.count > 1 else { throw error }
      return try await rewrite([wanted[0]], work, cannotMerge: true)
    }
    assert((newSlot == nil) == output.isEmpty, "an output with records has no slot")
    if let newSlot, cannotMerge { engine!.log.table.noteUnmergeable(newSlot) }
    // From here on the output is part of the store, whatever happens to the inputs' files.
    if let newSlot { await install(output, in: newSlot) }
    try await remove(slots)
    let report = work.count(reader.inputs[..<slots.count], output)
    await release(reader, output, on: work.thread)
    send(.compacted(report, elapsedNanoseconds: SystemClock.monotonicNanoseconds() - began))
    compaction.recordRewriting(outputBytes: report.outputBytes)
    return (slots.count, output.isEmpty ? 0 : 1)
  }

  /// Releases the files on the compaction's thread: the system frees the pages of the mappings
  /// then. The compaction is done, so it does not fail where the system has no thread any more.
  private func release(
    _ reader: CompactionReader, _ output: CompactionOutput, on thread: SerialQueue
  ) async {
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      thread.enqueue { _ in
        reader.release()
        output.release()
        continuation.resume()
      }
    }
  }

  /// Validates the trees, in parts. The records of an ordered keyspace lie in another order than
  /// its nodes, so a compaction needs nearly all of them.
  private func validateNodes() async throws(StoreError) {
    while try engine!.validateNextNodes() {
      await Task.yield()
      try checkUsable()
    }
  }

  /// Returns whether the records that were selected as live account for the live bytes and the
  /// digest of each segment. If they do not, the figures or the index entries are wrong, and
  /// nothing may be published: live records would be lost.
  private func accountsForLive(_ slots: [Int], _ output: CompactionOutput) async -> Bool {
    if engine!.accounts(for: slots, output.selection) { return true }
    // The figures may have been read again from the log since. Then only the records that the index
    // still holds count. Writers that run between the parts of a comparison may make it fail; the
    // last comparison does not let them run.
    let relocations = output.relocations
    for attempt in 0..<3 {
      let yields = attempt < 2 && relocations.count > 65_536
      var held = LiveSelection()
      for start in stride(from: 0, to: relocations.count, by: 4096) {
        let end = min(start + 4096, relocations.count)
        engine!.add(relocations[start..<end], to: &held)
        if yields { await Task.yield() }
      }
      if engine!.holds(held, slots) { return true }
      if !yields { return false }
    }
    return false
  }

  /// Rebuilds the index from the log, and removes the index checkpoints, which contradict the log.
  ///
  /// - Throws: `.corrupted` when the log contradicts itself; the store is poisoned then.
  private func discardCheckpoint() async throws(StoreError) {
    do throws(StoreError) { try engine!.rebuildIndex() } catch {
      if error.code == .corrupted { pipeline.poison(error) }
      throw error
    }
    let (names, directory) = (checkpoints.names, engine!.directoryHandle())
    try await pipeline.run { () throws(StoreError) in
      try CheckpointFile.remove(names, directory)
    }
    checkpoints.recordRemoval()
    // The manifest now says which digests in the log are valid.
    let hasLease = try await acquireWriterLease()
    defer { if hasLease { releaseWriterLease() } }
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    try await publishManifest()
  }

  /// Copies the live records of the segments, and the deletes that are still needed.
  ///
  /// - Returns: how many of the segments were copied, and up to which sequence number the output is
  ///   clean of records that deletes hide.
  private func copy(
    _ slots: [Int], _ reader: CompactionReader, _ output: CompactionOutput, _ work: CompactionWork,
    _ limitBytes: Int
  ) async throws(StoreError) -> (count: Int, cleaned: UInt64) {
    let thread = work.thread
    let cleaned = engine!.log.lastSequence
    // A number that a failed append has used up may be another operation's in a restored copy.
    output.stateCleaning(through: engine!.log.table.lastOperation)
    let cleanedBefore = engine!.cleanedThrough(before: slots[0])
    var count = 1
    for slot in slots { engine!.log.table[slot].beginSelection() }
    for input in reader.inputs where input.isDead {
      compaction.advance(readingBytes: UInt64(input.end))
    }
    var next = try await thread.run { () throws(StoreError) in try reader.chunk() }
    while let candidates = next {
      try checkUsable()
      assert(
        candidates.first.map { slots[(count - 1)...].contains($0.address.slot) } == true,
        "the records are not of the segment read last, or of a later one")
      // Copy at least two segments, or nothing would be gained.
      while slots[count - 1] != candidates[0].address.slot {
        if count > 1, output.expectedBytes(shrinkage: work.shrinkage) > limitBytes {
          try await writeWaiting(output, work)
          return (count, cleaned)
        }
        count += 1
      }
      let isKept = try await select(candidates, cleanedThrough: cleanedBefore)
      let readBytes = reader.takeReadBytes()
      compaction.advance(readingBytes: UInt64(readBytes))
      let pause = work.pacer.pause(
        afterReading: readBytes, appendedBytes: engine!.log.appendedBytes,
        isOverLimit: automaticStrategy.isOverLimit(engine!.garbageFigures()))
      try await sleep(pause, work)
      next = try await thread.run { () throws(StoreError) in
        try output.add(candidates, isKept, from: reader)
        return try reader.chunk()
      }
    }
    try await writeWaiting(output, work)
    return (slots.count, cleaned)
  }

  /// Selects the records that must be copied.
  private func select(
    _ candidates: [CompactionCandidate], cleanedThrough: UInt64
  ) async throws(StoreError) -> [Bool] {
    var isKept: [Bool] = []
    isKept.reserveCapacity(candidates.count)
    let readsKeys = engine!.live.trees.hasOrdered && candidates.first?.isMapped == false
    let length =
      readsKeys ? CompactionReader.turnOfReadKeys : CompactionReader.turnRecords
    while true {
      let turn = candidates[isKept.count...].prefix(length)
      isKept += try engine!.selectLive(turn, cleanedThrough: cleanedThrough)
      engine!.recordSelection(turn)
      if isKept.count == candidates.count { return isKept }
      await Task.yield()
      try checkUsable()
    }
  }

  /// Copies the records that wait for their turn in the order of the keys.
  private func writeWaiting(
    _ output: CompactionOutput, _ work: CompactionWork
  ) async throws(StoreError) {
    while true {
      let bytes = try await work.thread.run { () throws(StoreError) in
        try output.writeWaiting(CompactionReader.chunkRecords)
      }
      if bytes == 0 { return }
      try checkUsable()
      compaction.advance(readingBytes: UInt64(bytes))
      let pause = work.pacer.pause(
        afterReading: bytes, appendedBytes: engine!.log.appendedBytes,
        isOverLimit: automaticStrategy.isOverLimit(engine!.garbageFigures()))
      try await sleep(pause, work)
    }
  }
}

extension Store {
  /// Replaces the inputs by the output in the table and in the manifest.
  ///
  /// - Parameters:
  ///   - cleaned: the result of ``copy(_:_:_:_:_:)``.
  ///   - hiding: the last operation that may hide a record which was left out.
  /// - Returns: the output's slot; nil when there was nothing to copy.
  func publish(
    _ slots: [Int], _ output: CompactionOutput, _ cleaned: UInt64, hiding: UInt64,
    on thread: SerialQueue
  ) async throws(StoreError) -> Int? {
    let mapping = try await mapOutput(output, on: thread)
    if isShared { try await catchUpAsWriter() }
    // Newer records hide the records that were left out. The newer records must be durable first.
    try await makeDurable(through: hiding)
    let hasLease = isShared ? try await acquireWriterLease() : false
    defer { if hasLease { releaseWriterLease() } }
    await writing.manifestGate.waitUntilFree()
    try checkUsable()
    writing.manifestGate.take()
    defer { writing.manifestGate.release() }
    assert(engine!.live.index.movesUnderWay == 0, "the copies of another output are moving")
    try handOver(slots)
    // Index entries are moved after the manifest is published; then nothing may fail.
    try engine!.live.beginMoves(output.relocations.count)
    let pinCount = readers.live.pinCount
    let slot = engine!.replaceInputs(slots, with: output, mapping: mapping, cleaned: cleaned)
    let before = engine!.log.manifest
    let rebuildCount = engine!.rebuildCount
    engine!.log.manifest.compactedThrough = max(
      before.compactedThrough, SequenceNumber(rawValue: engine!.log.lastSequence))
    // No feed expires before the deletes that it lacks are gone for good.
    var next = engine!.nextManifest()
    next.feedHorizon = max(
      next.feedHorizon, SequenceNumber(rawValue: output.lastDroppedDelete))
    do throws(StoreError) {
      try await publishManifest(next)
    } catch {
      // A damaged page of a checkpoint may have been read since. The index that was rebuilt from
      // the log then names the copies.
      let namesCopies = slot.map { engine!.log.table[$0].live != LiveSum() } ?? false
      // After a rebuilding, the number also says which digests in the log may be wrong.
      if engine!.rebuildCount == rebuildCount {
        engine!.log.manifest.compactedThrough = before.compactedThrough
      }
      engine!.log.table.reinstate(for: slot)
      engine!.live.endMoves()
      if namesCopies { leaveCopies() }
      // A snapshot that was taken in between opens the output when it reads it.
      let mayBeRead = slot != nil && mapping == nil && readers.live.pinCount != pinCount
      if mayBeRead, heldBack([output.name]).isEmpty { output.leaveToSnapshots() }
      throw error
    }
    engine!.log.table.noteReplacementListed()
    return slot
  }

  /// Makes the index name the originals again, after the segment with the copies was dropped.
  private func leaveCopies() {
    do throws(StoreError) { try engine!.rebuildIndex() } catch {
      // The index names records of a free slot, and another segment must not get that slot.
      pipeline.poison(error)
    }
  }

  /// Maps the output. Returns nil when the segment is to be read without a mapping.
  private func mapOutput(
    _ output: CompactionOutput, on thread: SerialQueue
  ) async throws(StoreError) -> (any FileMapping)? {
    guard opener.configuration.ioMode == .mapped, let file = output.file else { return nil }
    let length = output.lengthBytes
    return try await thread.run { () throws(StoreError) in
      let mapping = try SegmentFile.map(file, length)
      mapping?.prefaultForReading(to: length)
      return mapping
    }
  }

  func install(_ output: CompactionOutput, in slot: Int) async {
    let relocations = output.relocations
    var start = 0
    while start < relocations.count {
      let end = min(start + 1024, relocations.count)
      engine!.install(relocations[start..<end], in: slot)
      start = end
      // Let other calls run.
      await Task.yield()
    }
    engine!.live.endMoves()
    assert(
      engine!.log.table.infos[slot].incomingBytes == 0, "some copies were never installed")
  }

  /// Removes the inputs and their files, which no index entry names any more.
  func remove(_ slots: [Int]) async throws(StoreError) {
    var names = slots.map { engine!.log.table.fileName($0) }
    // Without a mapping, a snapshot opens a file when it reads it.
    let areMapped = slots.allSatisfy { engine!.log.table.infos[$0].mapping != nil }
    if opener.configuration.ioMode == .positional || !areMapped { names = heldBack(names) }
    for slot in slots {
      assert(!engine!.log.table.order.contains(slot), "a segment of the log is removed")
      guard engine!.log.table[slot].liveBytes == 0, engine!.log.table[slot].digest == StateDigest()
      else {
        let error = StoreError(
          .corrupted, "compaction would lose live records; reopen the store and verify it",
          file: engine!.log.table.fileName(slot))
        pipeline.poison(error)
        throw error
      }
      engine!.log.table.drop(slot)
    }
    assert(!engine!.log.table.isRetiring, "an input of a compaction is not removed")
    let directory = engine!.directoryHandle()
    names += compaction.takeUnremoved()
    do throws(StoreError) {
      try await pipeline.run { [names, pipeline] () throws(StoreError) in
        try pipeline.remove(names, in: directory)
      }
    } catch {
      // Some file systems need space to remove a file. The segments are replaced nevertheless; the
      // next compaction removes the files, or the next opening.
      guard error.code == .noSpace, !pipeline.hasPoison else { throw error }
      compaction.keepUnremoved(names)
      sendOutOfSpace(error)
    }
    releaseInputs()
  }

  /// Makes the readers use the index without the inputs, so that these take no space on the disk.
  func releaseInputs() {
    guard engine != nil else { return }
    engine!.recent.markStale()
    refreshStaleReaders()
  }
}

extension EngineState {
  func compactionInputs(_ slots: [Int]) -> [CompactionInput] {
    let isSummed = figuresAgree()
    return slots.map { slot in
      assert(log.table.infos[slot].flags.contains(.sealed), "an open segment is to be rewritten")
      let view = log.table[slot]
      return CompactionInput(
        slot: slot, name: log.table.fileName(slot), mapping: log.table.infos[slot].mapping,
        firstOffset: view.firstOffset, end: view.end, seed: view.seed,
        dictionaryLength: view.dictionaryLength, liveBytes: view.boundedLiveBytes,
        isCompacted: log.table.infos[slot].isCompacted,
        isDead: isSummed && view.isCounted && view.live == LiveSum() && view.deleteBytes == 0)
    }
  }

  /// Returns whether the figures of the segments add up to those of the store.
  private func figuresAgree() -> Bool {
    var sum = LiveSum()
    for slot in log.table.order { sum.add(log.table[slot].liveBytes, log.table[slot].digest) }
    return sum == LiveSum(bytes: live.bytes, digest: live.digest)
  }

  /// Returns the header of the next segment that compaction writes. The segment's number is used up
  /// from now on.
  mutating func compactionHeader(_ inputs: [Int]) -> SegmentHeader {
    var header = SegmentHeader(
      storeID: log.manifest.storeID, epoch: log.manifest.epoch,
      number: log.takeSegmentNumber(), salt: SystemRandom.number())
    header.flags = .compacted
    if live.trees.hasOrdered || inputs.contains(where: { log.table.infos[$0].isClustered }) {
      header.flags.insert(.clustered)
    }
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
  static func lastDroppableDelete(_ cleanedThrough: UInt64, pin: UInt64) -> UInt64 {
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
    _ candidates: ArraySlice<CompactionCandidate>, cleanedThrough: UInt64
  ) throws(StoreError) -> [Bool] {
    // Deletes are not looked up, so their pages stay as they are: a damaged link in one of them
    // must not be followed.
    let puts = candidates.lazy.filter { !$0.isDelete }
    for put in puts { live.index.prefetch(put.hash) }
    if live.index.needsCare { for put in puts { try validatePages(put.hash) } }
    for put in puts { live.index.prefetchOverflow(put.hash) }
    let droppable = Self.lastDroppableDelete(cleanedThrough, pin: observers.pins.leastSequence)
    return candidates.map { candidate in
      candidate.isDelete
        ? candidate.sequence > droppable
        : live.holds(
          candidate.address, candidate.hash, candidate.keyspace, orderedKey: candidate.orderedKey,
          in: log.table)
    }
  }

  /// Records that the live ones of these records were selected just now: from now on a segment
  /// counts those of them that are replaced or deleted.
  mutating func recordSelection(_ candidates: ArraySlice<CompactionCandidate>) {
    guard let last = candidates.last else { return }
    assert(
      candidates.allSatisfy { $0.address.slot == last.address.slot },
      "the records of two segments are selected together")
    log.table[last.address.slot].select(before: last.address.offset + last.length)
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
    if output.header.flags.contains(.clustered) { info.flags.insert(.clustered) }
    info.incomingBytes = output.liveBytes
    let slot = log.table.place(view, info)
    log.table.setRun(output.expiries, of: slot)
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
    for relocation in relocations { live.index.prefetchOverflow(relocation.hash) }
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

/// The records that a compaction has selected as live, for each input.
struct LiveSelection {
  private var sums: [(slot: Int, sum: LiveSum)] = []
  /// Position of the sum that was used last: records that follow one another are mostly of the same
  /// input.
  private var place = 0

  mutating func add(_ candidate: CompactionCandidate) {
    add(candidate.address.slot, candidate.length, candidate.hash, candidate.sequence)
  }

  mutating func add(_ relocation: Relocation) {
    add(
      relocation.old.slot, Int(relocation.oldLength), relocation.hash, relocation.sequence)
  }

  private mutating func add(_ slot: Int, _ length: Int, _ hash: UInt64, _ sequence: UInt64) {
    if place >= sums.count || sums[place].slot != slot {
      place = sums.firstIndex { $0.slot == slot } ?? sums.count
      if place == sums.count { sums.append((slot, LiveSum())) }
    }
    sums[place].sum.add(UInt64(aligned(length)), .of(hash: hash, sequence: sequence))
  }

  subscript(slot: Int) -> LiveSum { sums.first { $0.slot == slot }?.sum ?? LiveSum() }
}

extension EngineState {
  /// Returns whether the live records of these segments are exactly the records that were selected,
  /// without those that were replaced or deleted since.
  func accounts(for slots: [Int], _ selection: LiveSelection) -> Bool {
    slots.allSatisfy { slot in
      var sum = selection[slot]
      sum.remove(log.table[slot].replaced)
      return sum == log.table[slot].live
    }
  }

  /// Returns whether the live records of these segments are exactly those of a selection.
  func holds(_ selection: LiveSelection, _ slots: [Int]) -> Bool {
    slots.allSatisfy { selection[$0] == log.table[$0].live }
  }

  /// Adds the copied records that are still live.
  func add(_ relocations: ArraySlice<Relocation>, to selection: inout LiveSelection) {
    for relocation in relocations { live.index.prefetch(relocation.hash) }
    for relocation in relocations { live.index.prefetchOverflow(relocation.hash) }
    for relocation in relocations
    where live.holds(
      relocation.old, relocation.hash, relocation.keyspace, orderedKey: relocation.orderedKey,
      in: log.table)
    {
      selection.add(relocation)
    }
  }
}
