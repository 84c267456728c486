import MoraineFormat
import MoraineStorage

extension Store {
  /// Rewrites neighbours as one segment, or drops them when nothing in them is live.
  ///
  /// - Parameters:
  ///   - limitBytes: when its output has as many, some of the neighbours may be left.
  ///   - cannotMerge: whether it was in vain to rewrite it together with neighbours.
  ///   - isSecondAttempt: whether the index was built from the log again for this attempt.
  /// - Returns: how many segments, from the first on, were rewritten, and how many took their
  ///   place: none or one.
  func rewrite(
    _ wanted: [Int], _ work: CompactionWork, limitBytes: Int = .max, cannotMerge: Bool = false,
    isSecondAttempt: Bool = false
  ) async throws(StoreError) -> (taken: Int, left: Int) {
    let began = SystemClock.monotonicNanoseconds()
    try engine!.checkWritable()
    guard engine!.table.vacancyCount > 0 else { throw SegmentTable.full }
    let inputs = engine!.compactionInputs(wanted)
    let directory = engine!.directoryHandle()
    let reader = CompactionReader(inputs, directory, engine!.manifest.hashKey)
    let output = CompactionOutput(
      engine!.compactionHeader(), directory, limitBytes: work.outputLimitBytes)
    let pipeline = pipeline
    let slots: [Int]
    let newSlot: Int?
    var isContradicted = false
    do throws(StoreError) {
      output.share(try await sharedDictionary(for: inputs, work))
      let (count, cleaned, selection) = try await copy(wanted, reader, output, work, limitBytes)
      slots = Array(wanted[..<count])
      try await work.thread.run { () throws(StoreError) in try output.finish(pipeline) }
      guard await accounts(selection, for: slots, output) else {
        isContradicted = true
        throw .indexDamaged("the index lacks records that are live", checkpoints.names.first)
      }
      newSlot = try await publish(slots, output, cleaned)
    } catch {
      if error.code == .corrupted, !isContradicted {
        engine!.table.noteDamage(error, among: wanted)
      }
      if !pipeline.hasPoison {
        // What went wrong says more than what goes wrong with cleaning up behind it; what is left
        // goes when the store is opened the next time.
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
      // One alone keeps its dictionary, and what it holds does not become longer.
      guard error.code == .limitExceeded, wanted.count > 1 else { throw error }
      return try await rewrite([wanted[0]], work, cannotMerge: true)
    }
    if let newSlot, cannotMerge { engine!.table.noteUnmergeable(newSlot) }
    // From here on the output is part of the store, whatever happens to the inputs' files.
    if let newSlot { await install(output, in: newSlot) }
    try await remove(slots)
    let report = work.count(inputs[..<slots.count], output)
    tell(.compacted(report, elapsedNanoseconds: SystemClock.monotonicNanoseconds() - began))
    compaction.recordRewriting(outputBytes: output.isEmpty ? 0 : UInt64(output.lengthBytes))
    return (slots.count, output.isEmpty ? 0 : 1)
  }

  /// Whether the records that were selected as live account for the live bytes and the digest of
  /// each segment. If they do not, the figures or the index entries are wrong, and nothing may be
  /// published: records that are live would be lost.
  private func accounts(
    _ selection: LiveSelection, for slots: [Int], _ output: CompactionOutput
  ) async -> Bool {
    if engine!.agrees(with: selection, slots) { return true }
    // A writer may have replaced some of them since. Then those that the index still has count.
    // While writers get their turn in between, a comparison may come too late; the last one does
    // not let them.
    let relocations = output.relocations
    for attempt in 0..<3 {
      let yields = attempt < 2 && relocations.count > 65_536
      var held = LiveSelection()
      for start in stride(from: 0, to: relocations.count, by: 4096) {
        let end = min(start + 4096, relocations.count)
        engine!.add(relocations[start..<end], to: &held)
        if yields { await Task.yield() }
      }
      if engine!.agrees(with: held, slots) { return true }
      if !yields { return false }
    }
    return false
  }

  /// Does without the index checkpoint that this process began with, and what came of it.
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
    // The manifest says now which digests in the log count.
    let hasLease = try await acquireWriterLease()
    defer { if hasLease { releaseWriterLease() } }
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    try await publishManifest()
  }

  /// - Returns: how many of the segments were copied, up to which sequence number the output is
  ///   clean of what deletes hide, and what was selected as live.
  private func copy(
    _ slots: [Int], _ reader: CompactionReader, _ output: CompactionOutput, _ work: CompactionWork,
    _ limitBytes: Int
  ) async throws(StoreError) -> (count: Int, cleaned: UInt64, selection: LiveSelection) {
    let thread = work.thread
    let cleaned = engine!.lastSequence
    let cleanedBefore = engine!.cleanedThrough(before: slots[0])
    var count = 1
    var selection = LiveSelection()
    while let candidates = try await thread.run({ () throws(StoreError) in try reader.chunk() }) {
      try checkUsable()
      // At least two, or nothing would be gained.
      while slots[count - 1] != candidates[0].address.slot {
        if count > 1, output.lengthBytes > limitBytes { return (count, cleaned, selection) }
        count += 1
      }
      let isKept = try engine!.selectLive(candidates, cleanedThrough: cleanedBefore)
      for (candidate, isKept) in zip(candidates, isKept) where candidate.isDelete && !isKept {
        output.lastDroppedDelete = candidate.sequence
      }
      for (candidate, isKept) in zip(candidates, isKept) where isKept && !candidate.isDelete {
        selection.add(candidate)
      }
      compaction.advance(readingBytes: candidates.reduce(0) { $0 &+ UInt64($1.length) })
      let pause = work.pacer.pause(
        afterReading: reader.takeReadBytes(), appendedBytes: engine!.appendedBytes,
        isBehind: engine!.isBehind(compactionPolicy))
      try await thread.run { () throws(StoreError) in
        for (candidate, isKept) in zip(candidates, isKept) where isKept {
          try output.append(try reader.record(candidate), candidate, &reader.values)
        }
      }
      try await sleep(pause, work)
    }
    return (slots.count, cleaned, selection)
  }
}

extension Store {
  /// Makes the output part of the store, and the inputs not.
  ///
  /// - Returns: the output's slot; nil when there was nothing to copy.
  func publish(
    _ slots: [Int], _ output: CompactionOutput, _ cleaned: UInt64
  ) async throws(StoreError) -> Int? {
    let mapping = try await mapOutput(output)
    // What was left out is hidden by newer records; those must outlive a power failure first.
    try await catchUpAsWriter()
    try await pipeline.waitUntilAllDurable()
    let hasLease = try await acquireWriterLease()
    defer { if hasLease { releaseWriterLease() } }
    await writing.manifestGate.waitUntilFree()
    try checkUsable()
    writing.manifestGate.take()
    defer { writing.manifestGate.release() }
    // Entries are moved after the manifest says so; then nothing may fail.
    try engine!.index.beginMoves(output.relocations.count)
    let slot = engine!.replaceInputs(slots, with: output, mapping: mapping, cleaned: cleaned)
    let before = engine!.manifest
    engine!.manifest.compactedThrough = SequenceNumber(rawValue: engine!.lastSequence)
    engine!.manifest.feedHorizon = max(
      before.feedHorizon, SequenceNumber(rawValue: output.lastDroppedDelete))
    do throws(StoreError) {
      try await publishManifest()
    } catch {
      engine!.manifest.compactedThrough = before.compactedThrough
      engine!.manifest.feedHorizon = before.feedHorizon
      engine!.table.reinstate(for: slot)
      engine!.index.movesUnderWay = 0
      throw error
    }
    return slot
  }

  /// Nil where the segment is to be read without a mapping.
  private func mapOutput(
    _ output: CompactionOutput
  ) async throws(StoreError) -> (any FileMapping)? {
    guard opener.configuration.ioMode == .mapped, let file = output.file else { return nil }
    let length = output.lengthBytes
    return try await pipeline.run { () throws(StoreError) in
      try SegmentFile.map(file, length)
    }
  }

  func install(_ output: CompactionOutput, in slot: Int) async {
    let relocations = output.relocations
    var start = 0
    while start < relocations.count {
      let end = min(start + 1024, relocations.count)
      engine!.install(relocations[start..<end], in: slot)
      start = end
      // Others get their turn.
      await Task.yield()
    }
    engine!.index.movesUnderWay = 0
  }

  /// The inputs' files go, once nothing names them any more.
  func remove(_ slots: [Int]) async throws(StoreError) {
    var names = slots.map { engine!.table.fileName($0) }
    // Without a mapping, a snapshot opens a file when it reads it.
    if opener.configuration.ioMode == .positional { names = heldBack(names) }
    for slot in slots {
      guard engine!.table[slot].liveBytes == 0, engine!.table[slot].digest == StateDigest() else {
        let error = StoreError(
          .corrupted, "compaction would lose live records; reopen the store and verify it",
          file: engine!.table.fileName(slot))
        pipeline.poison(error)
        throw error
      }
      engine!.table.drop(slot)
    }
    let directory = engine!.directoryHandle()
    try await pipeline.run { [names, pipeline] () throws(StoreError) in
      try pipeline.remove(names, in: directory)
    }
  }

  /// Which of the files of replaced segments no snapshot may read. The others are removed when the
  /// last snapshot that may read them is let go.
  private func heldBack(_ names: [String]) -> [String] {
    let directory = engine!.directoryHandle()
    return readers.live.removable(names) { [pipeline] names in
      // The thread that releases a snapshot need not wait for the disk.
      pipeline.enqueue { refusal in
        guard refusal == nil else { return }
        do throws(StoreError) { try pipeline.remove(names, in: directory) } catch {
          // They are removed at the latest when the store is opened the next time.
        }
      }
    }
  }
}

extension CommitPipeline {
  /// Removes files that the manifest does not list any more; on the committing thread.
  func remove(_ names: [String], in directory: any StorageDirectory) throws(StoreError) {
    if names.isEmpty { return }
    if let poison { throw poison }
    // The names may be another store's by now.
    try checkPresence()
    try storing { () throws(StorageError) in
      for name in names { try directory.remove(name) }
    }
  }
}
