import MoraineFormat
import MoraineStorage

extension Store {
  /// Makes the output part of the store, and the inputs not.
  ///
  /// - Returns: the output's slot; nil when there was nothing to copy.
  func publish(
    _ slots: [Int], _ output: CompactionOutput, _ cleaned: UInt64
  ) async throws(StoreError) -> Int? {
    let mapping = try await mapOutput(output)
    // What was left out is hidden by newer records; those must outlive a power failure first.
    try await passBurst()
    try await pipeline.waitUntilAllDurable()
    let hasBurst = try await enterBurst()
    defer { if hasBurst { leaveBurst() } }
    await manifestGate.waitUntilFree()
    try checkUsable()
    manifestGate.take()
    defer { manifestGate.release() }
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
      try SegmentOpening.map(file, length)
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
    return snapshots.living.removable(names) { [pipeline] names in
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
