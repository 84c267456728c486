import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// Rewrites the log so that it contains little besides live records, with those of ordered
  /// keyspaces in the order of their keys, and makes the index smaller when less than seven
  /// sixteenths of its slots are in use, for example after half of the keys were deleted.
  ///
  /// Reads and writes continue during a compaction. The compaction needs extra space for at most
  /// about one segment at a time, and none for segments without live records. Cancelling the task
  /// ends it after the current segment, or at once while
  /// ``CompactionPolicy/rateLimitBytesPerSecond`` makes it pause; the work done so far stays. On a
  /// full disk, segments whose copies do not fit keep their garbage.
  ///
  /// - Parameter progress: called after each step, with the number of bytes processed so far.
  /// - Throws: `.corrupted` when a record is not what was written (nothing is removed then),
  ///   `.noSpace` when there is garbage and no space was freed, `.io`, `.poisoned`, `.readOnly`,
  ///   `.closed`, `.usedAfterFork`.
  /// - Complexity: O(bytes of the log). Memory: a constant for each record of one segment.
  @discardableResult
  public func compact(
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> CompactionReport {
    try await beginCompaction()
    defer {
      endCompaction()
      recheck()
    }
    guard engine != nil else { return CompactionReport() }
    try engine!.checkChangeable()
    let work = CompactionWork(pacer: CompactionPacer(policy: compactionPolicy, isUrgent: true))
    do throws(StoreError) {
      let isSealed = try await sealIfSpaceAllows()
      try await compactAll(work, progress)
      if !isSealed {
        try await sealForCompaction()
        try await compactAll(work, progress)
      }
    } catch {
      await restoreReserve()
      guard work.isCancelled, error.code == .cancelled else { throw error }
    }
    await restoreReserve()
    try await shrinkIndex(thoroughly: true)
    if isCheckpointDue { try await writeCheckpoint(on: work.thread) }
    return work.report
  }

  /// Seals the active segment for a compaction. On a full disk without a reserve there may be no
  /// space for that before the compaction has freed some.
  ///
  /// - Returns: false when there is no space, and a sealed segment has garbage.
  private func sealIfSpaceAllows() async throws(StoreError) -> Bool {
    do throws(StoreError) {
      try await sealForCompaction()
      return true
    } catch {
      guard error.code == .noSpace, engine?.compactionFigures().cheapest != nil else { throw error }
      return false
    }
  }

  private func compactAll(
    _ work: CompactionWork, _ progress: (@Sendable (Store.Progress) -> Void)?
  ) async throws(StoreError) {
    // Segments that are sealed from now on wait for the next compaction.
    var strategy = ThoroughStrategy(
      engine!.compactionFigures(), mayShrink: compactionPolicy.sharesDictionaries)
    let total = engine!.diskBytes()
    var done: UInt64 = 0
    while !strategy.isFinished, !Task.isCancelled {
      try checkUsable()
      strategy.shrinkage = work.shrinkage
      let figures = engine!.compactionFigures()
      let window = strategy.window(figures)
      assert(!window.isEmpty, "a compaction makes no progress")
      done += figures.segments[window].reduce(0) { $0 + UInt64($1.fileBytes) }
      if strategy.next(figures) != nil {
        try await rewrite(window, &strategy, work)
      } else {
        strategy.skip(window.count)
      }
      progress?(Store.Progress(completedBytes: min(done, total), totalBytes: total))
    }
  }

  /// Rewrites the neighbours that the strategy has chosen, and reports to the strategy how many
  /// segments were rewritten.
  private func rewrite(
    _ window: Range<Int>, _ strategy: inout ThoroughStrategy, _ work: CompactionWork
  ) async throws(StoreError) {
    do throws(StoreError) {
      let slots = Array(engine!.compactable()[window])
      let limit = opener.configuration.segmentSizeBytes
      let (taken, left) = try await rewrite(slots, work, limitBytes: limit)
      strategy.shrinkage = work.shrinkage
      strategy.recordRewriting(
        taken: taken, left: left, isWhole: taken > 1 || window.count == 1,
        engine!.compactionFigures())
    } catch {
      guard error.code == .noSpace else { throw error }
      if try await makeSpace(work) {
        // This includes segments that were sealed in between, which does no harm.
        strategy.restart(engine!.compactionFigures())
        return
      }
      // Without garbage there is nothing to gain; small segments stay as they are. If this
      // compaction has freed space, writes go on, and a later one can copy the larger segment.
      guard work.hasFreedSpace || engine!.compactionFigures().cheapest == nil else { throw error }
      strategy.skip(window.count)
    }
  }

  /// Reserves again the space that a compaction had taken, before deletes can take it. The next
  /// compaction needs the space, even more so if this one failed.
  func restoreReserve() async {
    guard compaction.hasReserve, engine != nil, !isClosed, !pipeline.hasPoison else { return }
    let target = Reserve.target(liveBytes: engine!.live.bytes)
    do throws(StoreError) {
      try await passGateToCompact()
      writing.roomGate.take()
      defer { writing.roomGate.release() }
      try await changeReserve { (reserve) throws(StorageError) in try reserve.restore(target) }
    } catch {
      // The next put reserves the space, or throws the error.
    }
  }

  /// Makes a sparse index smaller: the index grows with the number of keys, but does not shrink
  /// when keys are deleted. Works in steps of less than a millisecond; other calls run between the
  /// steps.
  ///
  /// - Parameter thoroughly: whether a caller waits for a store that is as small as possible.
  func shrinkIndex(thoroughly: Bool) async throws(StoreError) {
    guard engine != nil, engine!.live.index.isSparse(thoroughly: thoroughly) else { return }
    do throws(StoreError) {
      while engine != nil, !isClosed, !isSuspended, !Task.isCancelled,
        thoroughly || !observers.phase.isAwaited, try engine!.shrinkIndexStep()
      {
        await Task.yield()
      }
    } catch {
      // Without memory for the copies of pages that snapshots have, the index stays as large as it
      // is; the compaction is done.
      guard error.code == .limitExceeded else { throw error }
    }
  }

  /// Rewrites only the neighbours at these positions among the sealed segments; for tests.
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

  /// The strategy of the automatic compaction. This is the one place that selects it.
  nonisolated var automaticStrategy: some CompactionStrategy {
    BackgroundStrategy(policy: compactionPolicy)
  }

  /// Waits until no compaction is under way, also in other processes, and begins one.
  private func beginCompaction() async throws(StoreError) {
    repeat {
      await compaction.waitForEnd()
      // Another one may begin while this task applies the writes of other processes.
      try await checkOpen()
    } while compaction.isRunning
    compaction.begin()
    do throws(StoreError) {
      if isShared {
        while try !takeCompactor() { try await pause() }
        try await beginRewriting()
      }
    } catch {
      endCompaction()
      recheck()
      throw error
    }
  }

  func endCompaction() {
    if isShared { freeCompactor() }
    compaction.end()
  }

  /// Seals the active segment, so that its garbage is removed too. The segment gets no successor
  /// yet, because a full disk may have no space for one.
  func sealForCompaction() async throws(StoreError) {
    try await passGateToCompact()
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    let hasLease = isShared ? try await acquireWriterLease() : false
    defer { if hasLease { releaseWriterLease() } }
    guard let active = engine?.log.active, engine!.log.table[active.slot].recordCount > 0 else {
      return
    }
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
    assert(engine?.log.active == nil, "a segment that was sealed accepts records")
  }
}

extension Store {
  /// Begins a compaction if there is enough garbage, or if a checkpoint is due. Called after a
  /// segment was sealed.
  func compactIfWorthIt() {
    let isGarbageDue =
      compactionPolicy.isAutomatic && engine?.nextCompaction(automaticStrategy) != nil
    guard isGarbageDue || isCheckpointDue else { return }
    compactInBackground(.garbage)
  }

  /// Begins a compaction on a full disk if there is enough garbage to be worth the work: garbage is
  /// the only space left.
  func compactBecauseFull() {
    guard compactionPolicy.isAutomatic, engine?.compactionFigures().isWorthCleaning == true else {
      return
    }
    compactInBackground(.fullDisk)
  }

  func compactIfMuchIsGarbage() {
    let figures = engine!.compactionFigures()
    let strategy = automaticStrategy
    guard strategy.sealsActive(figures) || strategy.next(figures) != nil else { return }
    compactInBackground(.garbage)
  }

  private func compactInBackground(_ occasion: CompactionOccasion) {
    guard !compaction.isRunning, !isClosed, !isSuspended, !pipeline.hasPoison else { return }
    compaction.begin(isForFullDisk: occasion == .fullDisk)
    startTask { await $0.runInBackground(occasion) }
  }

  private func runInBackground(_ occasion: CompactionOccasion) async {
    assert(compaction.isRunning, "background work begins without a compaction")
    let end = await clean(occasion)
    await restoreReserve()
    endCompaction()
    switch end {
    case .failed: return
    // An idle store would be compacted again and again, in vain.
    case .leftSegmentsOut: break
    case .foundAnother: recheckLater()
    // Also when a write has ended the compaction of an idle store: garbage may be left.
    case .complete: watchForIdleness()
    }
    recheck()
  }

  /// Begins a compaction if a delete found one under way, and so began none: the delete may have
  /// been the last.
  func recheck() {
    guard !compaction.isRunning, !isClosed, !isSuspended,
      engine != nil, compaction.takeRecheckRequest()
    else { return }
    // On a full disk the space that is left is for deletes; they begin a compaction if necessary.
    guard engine!.log.reserve.isFull else { return }
    compactIfMuchIsGarbage()
  }

  /// Looks for garbage again after a while: another process compacts, and may have passed the
  /// segments with this process's garbage.
  private func recheckLater() {
    guard !compaction.recheckIsPlanned else { return }
    compaction.recheckIsPlanned = true
    let nanoseconds = idleIntervalNanoseconds
    Task { [weak self, phase = observers.phase] in
      await ThreadPool.current.sleep(nanoseconds: nanoseconds)
      _ = await phase.runTask { await self?.recheckNow() }
    }
  }

  private func recheckNow() {
    compaction.recheckIsPlanned = false
    guard compactionPolicy.isAutomatic else { return }
    guard engine != nil, !isClosed, !isSuspended, !compaction.isRunning else {
      // A suspended store looks when it is resumed.
      compaction.requestRecheck()
      return
    }
    compactIfMuchIsGarbage()
  }

  /// The end of a compaction in the background.
  private enum CleaningEnd {
    case complete
    /// The disk could not read some of the segments.
    case leftSegmentsOut
    /// Another process compacts.
    case foundAnother
    /// An error ended the work early.
    case failed
  }

  /// Compacts all segments that are worth it.
  private func clean(_ occasion: CompactionOccasion) async -> CleaningEnd {
    let isFull = occasion == .fullDisk
    let work = CompactionWork(pacer: CompactionPacer(policy: compactionPolicy, isUrgent: isFull))
    do throws(StoreError) {
      if isShared {
        // While another process compacts, this process need not.
        guard try takeCompactor() else { return .foundAnother }
        try await beginRewriting()
      }
      if isFull || isActiveWorthSealing(occasion) { _ = try await sealIfSpaceAllows() }
      let appendedBytes = engine?.log.appendedBytes
      while !isClosed, !isSuspended, !observers.phase.isAwaited, compactionPolicy.isAutomatic,
        occasion != .idleness || engine?.log.appendedBytes == appendedBytes,
        let slots = chooseNext(occasion, work)
      {
        do throws(StoreError) {
          _ = try await rewrite(slots, work)
        } catch {
          // Damaged segments are left out from now on, and those that the disk cannot read until
          // this compaction ends; the others are still compacted.
          let isUnreadable = leaveOutUnreadable(slots, error, work)
          let isLeftOut = slots.contains { engine?.log.table.damage[$0] != nil }
          if isLeftOut || isUnreadable, !pipeline.hasPoison {
            sendCompactionFailed(error)
            continue
          }
          guard error.code == .noSpace, try await makeSpace(work) else { throw error }
        }
      }
      try await shrinkIndex(thoroughly: false)
      if isCheckpointDue, !isClosed, !isSuspended { try await writeCheckpoint(on: work.thread) }
      compaction.finish(work.readError ?? engine?.log.table.damage.values.first)
      return work.readError == nil ? .complete : .leftSegmentsOut
    } catch {
      // No caller waits for the error; `compactionFailure` and an event report it. The compaction
      // after the next sealed segment tries again.
      compaction.finish(error)
      sendCompactionFailed(error)
      return .failed
    }
  }

  private func isActiveWorthSealing(_ occasion: CompactionOccasion) -> Bool {
    guard engine != nil else { return false }
    let figures = engine!.compactionFigures()
    return occasion == .idleness
      ? IdleStrategy(policy: compactionPolicy).sealsActive(figures)
      : automaticStrategy.sealsActive(figures)
  }

  private func chooseNext(_ occasion: CompactionOccasion, _ work: CompactionWork) -> [Int]? {
    let unreadable = work.unreadable
    return switch occasion {
    case .garbage: engine?.nextCompaction(automaticStrategy, without: unreadable)
    case .fullDisk:
      engine?.nextCompaction(FullDiskStrategy(automatic: automaticStrategy), without: unreadable)
    case .idleness:
      engine?.nextCompaction(IdleStrategy(policy: compactionPolicy), without: unreadable)
    }
  }

  /// Leaves the segment out whose file an error of the disk names.
  ///
  /// - Returns: whether the error names one of the segments.
  private func leaveOutUnreadable(
    _ slots: [Int], _ error: StoreError, _ work: CompactionWork
  ) -> Bool {
    guard error.code == .io, engine != nil else { return false }
    let named = slots.filter {
      engine!.log.table.fileName($0) == error.file && !work.unreadable.contains($0)
    }
    work.leaveOut(named, because: error)
    return !named.isEmpty
  }

  /// Frees space when a copy does not fit: releases the reserve, or, if there is none, rewrites the
  /// segment whose copy needs the least space.
  ///
  /// - Returns: whether any space was freed.
  func makeSpace(_ work: CompactionWork) async throws(StoreError) -> Bool {
    try await passGateToCompact()
    writing.roomGate.take()
    do {
      defer { writing.roomGate.release() }
      if try await releaseReserve() { return true }
    }
    guard let place = engine?.compactionFigures(without: work.unreadable).cheapest else {
      return false
    }
    let slot = engine!.compactable()[place]
    do throws(StoreError) {
      _ = try await rewrite([slot], work)
      return true
    } catch {
      guard error.code == .noSpace else { throw error }
      return false
    }
  }

  /// Delays a writer when garbage grows faster than compaction removes it: by a pause for the bytes
  /// that it is about to append, or, when there is far too much, until the compaction has read
  /// three times as many bytes.
  ///
  /// - Parameter count: number of bytes that the writer is about to append.
  /// - Returns: the number of bytes after which the writer is delayed again; nil when it is not.
  func yieldToCompaction(before count: Int) async -> Int? {
    guard compaction.isRunning, compactionPolicy.isAutomatic, !isShared, engine != nil else {
      return nil
    }
    let delay = compaction.delay(appendedBytes: engine!.log.appendedBytes) {
      automaticStrategy.delay(engine!.garbageFigures())
    }
    switch delay {
    case .none: return nil
    case .pause(let rate):
      let (nanoseconds, bytes) = WriterDelay.pause(atRate: rate, before: count)
      if nanoseconds < WriterDelay.shortestSleepNanoseconds {
        SystemClock.spin(nanoseconds: nanoseconds)
      } else {
        await ThreadPool.current.sleep(nanoseconds: nanoseconds)
      }
      return bytes
    case .untilProgress:
      let bytes = WriterDelay.progressBytes(before: count)
      await compaction.waitForProgress(ofBytes: UInt64(bytes)) {
        !isClosed && !observers.phase.isClosing
      }
      return max(WriterDelay.progressPieceBytes, count)
    }
  }

  /// Passes the gate for a compaction. A writer that holds the gate and waits for the compaction to
  /// progress stops waiting.
  func passGateToCompact() async throws(StoreError) {
    compaction.beginAwaitingRoom()
    defer { compaction.endAwaitingRoom() }
    try await passGate()
  }
}

/// Compaction of a store that no task writes to.
extension Store {
  /// Begins to wait for the moment at which no task writes any more, if no task waits for that yet.
  func watchForIdleness() {
    guard !compaction.watchesForIdleness, compactionPolicy.isAutomatic, !isShared, !isClosed,
      !isSuspended
    else { return }
    compaction.watchesForIdleness = true
    let nanoseconds = idleIntervalNanoseconds
    // Not of another priority: where the process has reached its limit of threads, Swift's runtime
    // would wait here until it gets one more.
    Task { [weak self, phase = observers.phase] in
      repeat {
        await ThreadPool.current.sleep(nanoseconds: nanoseconds)
      } while await phase.runTask { await self?.cleanIfIdle() } == false
    }
  }

  private var idleIntervalNanoseconds: UInt64 {
    UInt64(max(1, opener.configuration.idleInterval.wholeMilliseconds)) * 1_000_000
  }

  /// Begins a compaction if no task has written since the last call and there is enough garbage.
  ///
  /// - Returns: false when this function is to be called again.
  private func cleanIfIdle() -> Bool {
    guard engine != nil, !isClosed, !isSuspended, !pipeline.hasPoison else {
      compaction.watchesForIdleness = false
      return true
    }
    guard compaction.isIdle(appendedBytes: engine!.log.appendedBytes) else { return false }
    compaction.watchesForIdleness = false
    let (strategy, figures) = (IdleStrategy(policy: compactionPolicy), engine!.compactionFigures())
    if strategy.next(figures) != nil || strategy.sealsActive(figures) {
      compactInBackground(.idleness)
    }
    return true
  }
}

extension Store {
  /// Pauses a compaction. The pause consists of short sleeps, so that closing the store, cancelling
  /// the task or an opening that waits ends it soon, however slow the rate limit is.
  ///
  /// - Throws: `.closed`, `.suspended`; `.cancelled`, which `work` records.
  func sleep(_ nanoseconds: UInt64, _ work: CompactionWork) async throws(StoreError) {
    var left = nanoseconds
    while left > 0, !isClosed, !isSuspended, !observers.phase.isAwaited {
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

extension EngineState {
  /// Returns the sealed segments that compaction may rewrite, in replay order: all segments before
  /// the first open one. A follower leaves the last segment too: it shows where the log of the
  /// archive ends, and may become longer.
  func compactable() -> [Int] {
    let sealed = log.table.order.prefix { log.table.infos[$0].flags.contains(.sealed) }
    let isLastKept = log.manifest.following != nil && sealed.count == log.table.order.count
    return Array(isLastKept ? sealed.dropLast() : sealed)
  }

  /// Returns the facts that a ``CompactionStrategy`` decides from.
  func compactionFigures(without unreadable: Set<Int> = []) -> CompactionFigures {
    let sealedCount = compactable().count
    let all = segmentFigures(without: unreadable)
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

  /// Returns the facts that each writer and each step of a compaction needs: they are summed in far
  /// less time than the others.
  func garbageFigures() -> GarbageFigures {
    // The garbage of damaged segments must stay.
    guard log.table.damage.isEmpty else { return compactionFigures().garbage }
    return GarbageFigures(cleanableBytes: Int(clamping: diskBytes()), liveBytes: live.bytes)
  }

  /// Returns the figures of each segment, in replay order.
  private func segmentFigures(without unreadable: Set<Int>) -> [SegmentFigures] {
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
        isDamaged: log.table.damage[slot] != nil || unreadable.contains(slot),
        cannotMerge: log.table.unmergeable.contains(slot), isPinned: place >= firstPinned,
        isCompacted: info.isCompacted,
        isUnclustered: live.trees.hasOrdered && !info.isClustered, fileBytes: view.end)
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
  func nextCompaction(
    _ strategy: some CompactionStrategy, without unreadable: Set<Int> = []
  ) -> [Int]? {
    strategy.next(compactionFigures(without: unreadable)).map { Array(log.table.order[$0]) }
  }

  /// Returns the total length of all segments.
  func diskBytes() -> UInt64 {
    UInt64(log.table.order.reduce(0) { $0 + log.table[$1].end })
  }
}
