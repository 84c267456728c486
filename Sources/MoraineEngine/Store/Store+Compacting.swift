import MoraineFormat
import MoraineStorage

extension Store {
  /// Rewrites the log so that it holds little but what is live.
  ///
  /// Reading and writing go on meanwhile. Needs at most about one segment's worth of extra space at
  /// a time. Cancelling the task ends it after the segment in work, with what was done so far.
  ///
  /// - Throws: `.corrupted` when a record is not what was written (nothing is removed then),
  ///   `.noSpace`, `.io`, `.poisoned`, `.readOnly`, `.closed`, `.usedAfterFork`.
  /// - Complexity: O(bytes of the log).
  public func compact(
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> CompactionReport {
    var report = CompactionReport()
    try await beginCompaction()
    defer { endCompaction() }
    guard engine != nil else { return report }
    try engine!.checkWritable()
    try await sealForCompaction()
    let thread = BackgroundThread()
    defer { thread.stop() }
    // What is sealed from now on waits for the next time.
    var remaining = engine!.compactable().count
    let total = engine!.diskBytes()
    var done: UInt64 = 0
    var start = 0
    while remaining > 0, !Task.isCancelled, !isClosed {
      let window = engine!.thoroughWindow(from: start, count: remaining)
      remaining -= window.slots.count
      done += window.bytes
      if window.isWorthIt {
        start += try await rewrite(window.slots, on: thread, &report)
      } else {
        start += window.slots.count
      }
      progress?(Progress(completedBytes: min(done, total), totalBytes: total))
    }
    return report
  }

  /// Rewrites just these neighbours, counted among the sealed segments; for tests.
  package func compact(segments range: Range<Int>) async throws(StoreError) {
    try await beginCompaction()
    defer { endCompaction() }
    guard let slots = engine?.compactable() else { return }
    let chosen = Array(slots[range.clamped(to: 0..<slots.count)])
    guard !chosen.isEmpty else { return }
    let thread = BackgroundThread()
    defer { thread.stop() }
    var report = CompactionReport()
    _ = try await rewrite(chosen, on: thread, &report)
  }

  /// One at a time.
  private func beginCompaction() async throws(StoreError) {
    while isCompacting { await withUnsafeContinuation { compactionGate.append($0) } }
    try checkOpen()
    isCompacting = true
  }

  private func endCompaction() {
    isCompacting = false
    let waiting = compactionGate
    compactionGate = []
    for continuation in waiting { continuation.resume() }
  }

  /// Waits for a compaction under way to end, after asking it to.
  func stopCompaction() async {
    while isCompacting { await withUnsafeContinuation { compactionGate.append($0) } }
  }

  /// The active segment's garbage goes too.
  private func sealForCompaction() async throws(StoreError) {
    try await passGate()
    guard let active = engine?.active, engine!.table[active.slot].recordCount > 0 else { return }
    isMakingRoom = true
    defer { openGate() }
    try await rotate(for: 0)
    // Behind an empty job, the seal is done.
    try await pipeline.run { () throws(StoreError) in }
  }

  /// Looks, after a segment was sealed, whether there is enough garbage to begin.
  func compactIfWorthIt() {
    let policy = opener.configuration.compaction
    guard policy.isAutomatic, !isCompacting, !isClosed, engine?.nextCompaction(policy) != nil else {
      return
    }
    isCompacting = true
    Task(priority: .utility) { await self.compactInBackground(policy) }
  }

  private func compactInBackground(_ policy: CompactionPolicy) async {
    defer { endCompaction() }
    let thread = BackgroundThread()
    defer { thread.stop() }
    var report = CompactionReport()
    do throws(StoreError) {
      while !isClosed, let slots = engine?.nextCompaction(policy) {
        _ = try await rewrite(slots, on: thread, &report)
      }
      compactionFailure = nil
    } catch {
      // Nobody waits for it; the figures tell. The next sealed segment tries again.
      compactionFailure = error
    }
  }

  /// Rewrites neighbours as one segment, or drops them when nothing in them is live.
  ///
  /// - Returns: how many segments took their place: none or one.
  private func rewrite(
    _ slots: [Int], on thread: BackgroundThread, _ report: inout CompactionReport
  ) async throws(StoreError) -> Int {
    let inputs = engine!.compactionInputs(slots)
    let directory = engine!.directoryHandle()
    let reader = CompactionReader(inputs, directory, engine!.manifest.hashKey)
    let output = CompactionOutput(engine!.compactionHeader(), directory)
    let pipeline = pipeline
    let newSlot: Int?
    do throws(StoreError) {
      let cleaned = try await copy(slots, reader, output, thread)
      try await thread.run { () throws(StoreError) in try output.finish(pipeline) }
      newSlot = try await publish(slots, output, cleaned)
    } catch {
      if !pipeline.hasPoison {
        try await thread.run { () throws(StoreError) in try output.discard() }
      }
      throw error
    }
    // From here on the output is part of the store, whatever happens to the inputs' files.
    if let newSlot { await install(output, in: newSlot) }
    try await remove(slots)
    report.inputSegmentCount += inputs.count
    report.inputBytes += inputs.reduce(0) { $0 + UInt64($1.end) }
    report.outputBytes += output.isEmpty ? 0 : UInt64(output.lengthBytes)
    compactionBytes += output.isEmpty ? 0 : UInt64(output.lengthBytes)
    return output.isEmpty ? 0 : 1
  }

  /// - Returns: up to which sequence number the output is clean of what deletes hide.
  private func copy(
    _ slots: [Int], _ reader: CompactionReader, _ output: CompactionOutput,
    _ thread: BackgroundThread
  ) async throws(StoreError) -> UInt64 {
    let cleaned = engine!.lastSequence
    let cleanedBefore = engine!.cleanedThrough(before: slots[0])
    while let candidates = try await thread.run({ () throws(StoreError) in try reader.chunk() }) {
      if isClosed { throw StoreError(.closed, "the store was closed during compaction") }
      let isKept = engine!.judge(candidates, cleanedThrough: cleanedBefore)
      for (candidate, isKept) in zip(candidates, isKept) where candidate.isDelete && !isKept {
        output.lastDroppedDelete = candidate.sequence
      }
      try await thread.run { () throws(StoreError) in
        for (candidate, isKept) in zip(candidates, isKept) where isKept {
          try output.append(try reader.record(candidate), candidate)
        }
      }
    }
    return cleaned
  }

  /// Makes the output part of the store, and the inputs not.
  ///
  /// - Returns: the output's slot; nil when there was nothing to copy.
  private func publish(
    _ slots: [Int], _ output: CompactionOutput, _ cleaned: UInt64
  ) async throws(StoreError) -> Int? {
    let mapping = try await mapOutput(output)
    // What was left out is hidden by newer records; those must outlive a power failure first.
    try await pipeline.waitUntilAllDurable()
    while isSwapping { await withUnsafeContinuation { swapGate.append($0) } }
    if isClosed { throw StoreError(.closed, "the store was closed during compaction") }
    isSwapping = true
    let (slot, range) = engine!.replaceInputs(
      slots, with: output, mapping: mapping, cleaned: cleaned)
    let before = engine!.manifest
    engine!.manifest.compactedThrough = SequenceNumber(rawValue: engine!.lastSequence)
    engine!.manifest.feedHorizon = max(
      before.feedHorizon, SequenceNumber(rawValue: output.lastDroppedDelete))
    let next = engine!.nextManifest()
    let publisher = engine!.publisher()
    do throws(StoreError) {
      try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
      engine!.adoptManifest(next)
      endSwap()
    } catch {
      engine!.manifest.compactedThrough = before.compactedThrough
      engine!.manifest.feedHorizon = before.feedHorizon
      engine!.takeBack(slots, range, slot)
      endSwap()
      throw error
    }
    return slot
  }

  func endSwap() {
    isSwapping = false
    let waiting = swapGate
    swapGate = []
    for continuation in waiting { continuation.resume() }
  }

  private func mapOutput(
    _ output: CompactionOutput
  ) async throws(StoreError) -> (any FileMapping)? {
    guard opener.configuration.ioMode == .mapped, let file = output.file else { return nil }
    let length = output.lengthBytes
    return try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try file.map(lengthBytes: length, .read) }
    }
  }

  private func install(_ output: CompactionOutput, in slot: Int) async {
    let relocations = output.relocations
    var start = 0
    while start < relocations.count {
      let end = min(start + 1024, relocations.count)
      engine!.install(relocations[start..<end], in: slot)
      start = end
      // Others get their turn.
      await Task.yield()
    }
  }

  /// The inputs' files go, once nothing names them any more.
  private func remove(_ slots: [Int]) async throws(StoreError) {
    let names = slots.map { engine!.table.fileName($0) }
    for slot in slots {
      guard engine!.table[slot].liveBytes == 0 else {
        let error = StoreError(
          .corrupted, "compaction would lose live records; reopen the store and verify it",
          file: engine!.table.fileName(slot))
        pipeline.poison(error)
        throw error
      }
      engine!.table.drop(slot)
    }
    let directory = engine!.directoryHandle()
    try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in
        for name in names { try directory.remove(name) }
      }
    }
  }
}
