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
      guard work.isCancelled, error.code == .cancelled else { throw error }
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
      await compaction.waitForEnd()
      // Another one may begin while this one takes in what other processes have written.
      try await checkOpen()
    } while compaction.isRunning
    compaction.begin()
    do throws(StoreError) {
      while try !takeCompactor() { try await pause() }
      try await beginRewriting()
    } catch {
      endCompaction()
      throw error
    }
  }

  func endCompaction() {
    freeCompactor()
    compaction.end()
  }

  /// The active segment's garbage goes too. It gets no successor yet: on a full disk there may be
  /// no space for one.
  func sealForCompaction() async throws(StoreError) {
    try await passGateToCompact()
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    let hasLease = try await acquireWriterLease()
    defer { if hasLease { releaseWriterLease() } }
    guard let active = engine?.active, engine!.table[active.slot].recordCount > 0 else { return }
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
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

extension Store {
  /// Looks, after a segment was sealed, whether there is enough garbage to begin.
  func compactIfWorthIt() {
    let policy = compactionPolicy
    let isGarbageDue = policy.isAutomatic && engine?.nextCompaction(policy) != nil
    guard isGarbageDue || isCheckpointDue else { return }
    compactInBackground(isFull: false)
  }

  /// On a full disk garbage is the only space there is, if there is enough to be worth the work.
  func compactBecauseFull() {
    guard compactionPolicy.isAutomatic, engine?.isWorthCleaning() == true else { return }
    compactInBackground(isFull: true)
  }

  /// Looks, after a delete, whether much has become garbage: no segment need ever be sealed again.
  @inline(__always)
  func compactAfterDeleting() {
    guard engine != nil, compaction.isCheckDue(liveBytes: engine!.liveBytes) else { return }
    guard compactionPolicy.isAutomatic, !writing.roomGate.isHeld else { return }
    if compaction.isRunning { compaction.requestRecheck() } else { compactIfMuchIsGarbage() }
  }

  private func compactIfMuchIsGarbage() {
    let isActivePoor = engine!.isActiveGarbage(compactionPolicy)
    guard isActivePoor || engine!.nextCompaction(compactionPolicy) != nil else { return }
    compactInBackground(isFull: false)
  }

  private func compactInBackground(isFull: Bool) {
    guard !compaction.isRunning, !isClosed, !isSuspended, !pipeline.hasPoison else { return }
    compaction.begin(isForFullDisk: isFull)
    Task(priority: .utility) { await self.runInBackground(isFull: isFull) }
  }

  private func runInBackground(isFull: Bool) async {
    let hasFailed = await !clean(isFull: isFull)
    await restoreReserve()
    endCompaction()
    // Who looked meanwhile found this one under way, and may have been the last.
    guard !hasFailed, !isClosed, !isSuspended, engine != nil, compaction.takeRecheckRequest()
    else { return }
    // On a full disk what is left is for the deletes; they ask for a compaction when they need one.
    guard engine!.reserve.isFull else { return }
    compactIfMuchIsGarbage()
  }

  /// - Returns: whether nothing kept it from cleaning all that is worth it.
  private func clean(isFull: Bool) async -> Bool {
    let work = CompactionWork(pacer: CompactionPacer(policy: compactionPolicy, isUrgent: isFull))
    do throws(StoreError) {
      // What another process is rewriting need not be rewritten by this one.
      guard try takeCompactor() else { return true }
      try await beginRewriting()
      if isFull || engine?.isActiveGarbage(compactionPolicy) == true {
        try await sealForCompaction()
      }
      while !isClosed, !isSuspended, compactionPolicy.isAutomatic, let slots = chooseNext(isFull) {
        do throws(StoreError) {
          _ = try await rewrite(slots, work)
        } catch {
          // What is damaged is left out from now on; the rest is cleaned all the same.
          let isLeftOut = slots.contains { engine?.table.damage[$0] != nil }
          if isLeftOut, !pipeline.hasPoison {
            tellCompactionFailed(error)
            continue
          }
          guard error.code == .noSpace, try await makeSpace(work) else { throw error }
        }
      }
      try await shrinkIndex()
      if isCheckpointDue, !isClosed, !isSuspended { try await writeCheckpoint(on: work.thread) }
      compaction.finish(engine?.table.damage.values.first)
      return true
    } catch {
      // Nobody waits for it; the figures tell. The next sealed segment tries again.
      compaction.finish(error)
      tellCompactionFailed(error)
      return false
    }
  }

  private func chooseNext(_ isFull: Bool) -> [Int]? {
    if let slots = engine?.nextCompaction(compactionPolicy) { return slots }
    return isFull ? engine?.cheapest().map { [$0] } : nil
  }

  /// When there is no space to copy into: rewrites the segment that needs the least of it.
  ///
  /// - Returns: whether anything was freed.
  func makeSpace(_ work: CompactionWork) async throws(StoreError) -> Bool {
    try await passGateToCompact()
    writing.roomGate.take()
    do {
      defer { writing.roomGate.release() }
      if try await releaseReserve() { return true }
    }
    guard let slot = engine?.cheapest() else { return false }
    do throws(StoreError) {
      _ = try await rewrite([slot], work)
      return true
    } catch {
      guard error.code == .noSpace else { throw error }
      return false
    }
  }

  /// Holds a writer back when garbage grows faster than it is cleaned: until three times as much
  /// has been read for cleaning as the writer is about to append.
  func yieldToCompaction(before bytes: Int) async {
    guard compaction.isRunning, compactionPolicy.isAutomatic, !isShared,
      engine?.isFarBehind(compactionPolicy) == true
    else { return }
    await compaction.waitForProgress(ofBytes: UInt64(bytes) * 3) { !isClosed }
  }

  /// Passes the gate, past a writer that waits behind it for compaction to go on.
  func passGateToCompact() async throws(StoreError) {
    compaction.beginAwaitingRoom()
    defer { compaction.endAwaitingRoom() }
    try await passGate()
  }
}

extension Store {
  /// Lets time pass in a compaction. In short sleeps, so that closing the store and cancelling the
  /// task end it soon, however slow the rate limit is.
  ///
  /// - Throws: `.closed`, `.suspended`; `.cancelled`, which the work remembers.
  func sleep(_ nanoseconds: UInt64, _ work: CompactionWork) async throws(StoreError) {
    var left = nanoseconds
    while left > 0, !isClosed, !isSuspended {
      guard !Task.isCancelled else {
        work.isCancelled = true
        throw StoreError(.cancelled, "the compaction was cancelled")
      }
      let step = min(left, CompactionPacer.longestPause)
      await ThreadPool.current.sleep(nanoseconds: step)
      left -= step
    }
    try checkUsable()
  }
}
