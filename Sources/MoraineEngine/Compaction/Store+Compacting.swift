import MoraineFormat
import MoraineStorage

extension Store {
  /// Rewrites the log so that it holds little but what is live, and makes the index smaller where
  /// most of its keys were deleted.
  ///
  /// Reading and writing go on meanwhile. Needs at most about one segment's worth of extra space at
  /// a time, and none for what holds nothing live. Cancelling the task ends it after the segment in
  /// work, or at once where ``CompactionPolicy/rateLimitBytesPerSecond`` makes it pause, with what
  /// was done so far.
  ///
  /// - Parameter progress: called after each step, with the bytes that were looked at.
  /// - Throws: `.corrupted` when a record is not what was written (nothing is removed then),
  ///   `.noSpace`, `.io`, `.poisoned`, `.readOnly`, `.closed`, `.usedAfterFork`.
  /// - Complexity: O(bytes of the log). Memory: a constant for each record of one segment.
  @discardableResult
  public func compact(
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> CompactionReport {
    try await beginCompaction()
    defer { endCompaction() }
    guard engine != nil else { return CompactionReport() }
    try engine!.checkWritable()
    let work = CompactionWork(pacer: CompactionPacer(policy: compactionPolicy, isUrgent: true))
    try await sealForCompaction()
    do throws(StoreError) {
      try await compactAll(work, progress)
    } catch {
      await restoreReserve()
      guard work.isCancelled, error.code == .closed else { throw error }
    }
    await restoreReserve()
    try await shrinkIndex()
    if isCheckpointDue { try await writeCheckpoint(on: work.thread) }
    return work.report
  }

  private func compactAll(
    _ work: CompactionWork, _ progress: (@Sendable (Progress) -> Void)?
  ) async throws(StoreError) {
    // What is sealed from now on waits for the next time.
    var remaining = engine!.compactable().count
    let total = engine!.diskBytes()
    var done: UInt64 = 0
    var start = 0
    while remaining > 0, !Task.isCancelled {
      try checkUsable()
      let window = engine!.thoroughWindow(from: start, count: remaining, work.shrinkage)
      done += window.bytes
      if window.isWorthIt {
        do throws(StoreError) {
          let limit = opener.configuration.segmentSizeBytes
          let (taken, left) = try await rewrite(window.slots, work, limitBytes: limit)
          remaining -= taken - left
          let hasMerged = taken > 1 || window.slots.count == 1
          if left > 0 { advance(&start, &remaining, hasMerged: hasMerged, work) }
        } catch {
          guard error.code == .noSpace else { throw error }
          if try await makeSpace(work) {
            // What was sealed in between is looked at too; that does no harm.
            (start, remaining) = (0, engine!.compactable().count)
            continue
          }
          // Without garbage there is nothing to gain; small segments stay as they are.
          guard engine!.cheapest() == nil else { throw error }
          start += window.slots.count
          remaining -= window.slots.count
        }
      } else {
        start += window.slots.count
        remaining -= window.slots.count
      }
      progress?(Progress(completedBytes: min(done, total), totalBytes: total))
    }
  }

  /// Moves on from an output, unless it became so small that a neighbour fits in as well.
  private func advance(
    _ start: inout Int, _ remaining: inout Int, hasMerged: Bool, _ work: CompactionWork
  ) {
    func fits(from start: Int, _ count: Int) -> Bool {
      engine!.thoroughWindow(from: start, count: count, work.shrinkage).slots.count > 1
    }
    if hasMerged, start > 0, fits(from: start - 1, 2) {
      start -= 1
      remaining += 1
    } else if !hasMerged || !fits(from: start, remaining) {
      start += 1
      remaining -= 1
    }
  }

  /// Makes a sparse index smaller: it grows with the keys, and does not become smaller with them by
  /// itself. Goes on in steps of less than a millisecond, between which others use the store.
  func shrinkIndex() async throws(StoreError) {
    guard engine != nil, engine!.index.isSparse else { return }
    while engine != nil, !isClosed, !isSuspended, !Task.isCancelled,
      try engine!.shrinkIndexStep()
    {
      await Task.yield()
    }
  }

  /// Rewrites just these neighbours, counted among the sealed segments; for tests.
  package func compact(segments range: Range<Int>) async throws(StoreError) {
    try await beginCompaction()
    defer { endCompaction() }
    guard let slots = engine?.compactable() else { return }
    let chosen = Array(slots[range.clamped(to: 0..<slots.count)])
    guard !chosen.isEmpty else { return }
    let work = CompactionWork(pacer: CompactionPacer(policy: compactionPolicy, isUrgent: true))
    _ = try await rewrite(chosen, work)
  }

  nonisolated var compactionPolicy: CompactionPolicy { opener.configuration.compaction }

  /// One at a time.
  private func beginCompaction() async throws(StoreError) {
    repeat {
      await compactionEnded()
      // Another one may begin while this one takes in what other processes have written.
      try await checkOpen()
    } while isCompacting
    compactionGate.take()
    do throws(StoreError) {
      while try !takeCompactor() { try await pause() }
      try await beginRewriting()
    } catch {
      endCompaction()
      throw error
    }
  }

  func endCompaction() {
    isCompactingBecauseFull = false
    compactionHasReserve = false
    freeCompactor()
    compactionGate.release()
    noteCompactionProgress()
  }

  /// Waits until no compaction is under way.
  func compactionEnded() async {
    await compactionGate.waitUntilFree()
  }

  /// The active segment's garbage goes too. It gets no successor yet: on a full disk there may be
  /// no space for one.
  func sealForCompaction() async throws(StoreError) {
    try await passGateToCompact()
    roomGate.take()
    defer { roomGate.release() }
    let hasBurst = try await enterBurst()
    defer { if hasBurst { leaveBurst() } }
    guard let active = engine?.active, engine!.table[active.slot].recordCount > 0 else { return }
    await manifestGate.acquire()
    defer { manifestGate.release() }
    do throws(StoreError) {
      try await sealAndPublish()
    } catch {
      guard error.code == .noSpace, try await releaseReserve() else { throw error }
      try await sealAndPublish()
    }
  }

  private func sealAndPublish() async throws(StoreError) {
    try await sealActive()
    try await publishManifest()
  }
}
