import MoraineFormat
import MoraineStorage

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
    guard engine != nil, engine!.liveBytes < looksBelowLiveBytes else { return }
    looksBelowLiveBytes = engine!.liveBytes / 4 * 3
    guard compactionPolicy.isAutomatic, !roomGate.isHeld else { return }
    if isCompacting { looksAgain = true } else { compactIfMuchIsGarbage() }
  }

  private func compactIfMuchIsGarbage() {
    let isActivePoor = engine!.isActiveGarbage(compactionPolicy)
    guard isActivePoor || engine!.nextCompaction(compactionPolicy) != nil else { return }
    compactInBackground(isFull: false)
  }

  private func compactInBackground(isFull: Bool) {
    guard !isCompacting, !isClosed, !isSuspended, !pipeline.hasPoison else { return }
    compactionGate.take()
    isCompactingBecauseFull = isFull
    Task(priority: .utility) { await self.runInBackground(isFull: isFull) }
  }

  private func runInBackground(isFull: Bool) async {
    let hasFailed = await !clean(isFull: isFull)
    await restoreReserve()
    endCompaction()
    // Who looked meanwhile found this one under way, and may have been the last.
    guard looksAgain, !hasFailed, !isClosed, !isSuspended, engine != nil else { return }
    looksAgain = false
    // On a full disk what is left is for the deletes; they ask for a compaction when they need one.
    guard engine!.reserve.isWhole else { return }
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
      compactionFailure = engine?.table.damage.values.first
      return true
    } catch {
      // Nobody waits for it; the figures tell. The next sealed segment tries again.
      compactionFailure = error
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
    roomGate.take()
    do {
      defer { roomGate.release() }
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
    guard isCompacting, compactionPolicy.isAutomatic, !isShared,
      engine?.isFarBehind(compactionPolicy) == true
    else { return }
    let goal = compactionReadBytes &+ UInt64(bytes) * 3
    while isCompacting, !isClosed, !compactionAwaitsGate, compactionReadBytes < goal {
      await compactionProgress.waitForWakeUp()
    }
  }

  /// Passes the gate, past a writer that waits behind it for compaction to go on.
  func passGateToCompact() async throws(StoreError) {
    compactionAwaitsGate = true
    defer { compactionAwaitsGate = false }
    noteCompactionProgress()
    try await passGate()
  }

  func noteCompactionProgress() { compactionProgress.wakeAll() }
}
