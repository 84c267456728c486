import MoraineFormat
import MoraineStorage
public import SystemPackage

extension Store {
  /// Seals the log and releases the directory lock. Calling `close()` again has no effect; a call
  /// while another one is closing the store waits for its end, and throws the same error.
  ///
  /// All writes are on stable storage when this returns, also those that wait in a ``WriteQueue``
  /// when this is called.
  ///
  /// - Throws: `.poisoned`, `.noSpace`, `.io`; the store is closed in any case, and opening it
  ///   again is safe. The error of writes that a ``WriteQueue`` has dropped, if no other call has
  ///   thrown it. A store that was poisoned before has reported that already, and closes without
  ///   an error, except for `.storeReplaced`: then closing wrote nothing to the directory, and the
  ///   writes since the files were replaced may be lost.
  public func close() async throws(StoreError) {
    // An opening of the same directory in this process waits from here on.
    observers.phase.beginClosing()
    let mustApply = pipeline.isInItsProcess && writing.stopQueues(closedError)
    let closesFirst = !mustApply && beginToClose()
    compaction.wakeWriters()
    // The opening that waits may block a thread of the cooperative pool for that time. So from here
    // on this close needs none of its threads.
    let failure = await withTaskExecutorPreference(pipeline.taskExecutor) {
      // This leaves the actor until the task runs on that thread; the task enters the actor there.
      await moveToPreferredExecutor()
      if mustApply { await writing.applyQueues() }
      let isFirst = mustApply ? beginToClose() : closesFirst
      let failure = await endInOrder(isFirst)
      return failure ?? (pipeline.isInItsProcess ? writing.takeUnreportedFailure() : nil)
    }
    if let failure { throw failure }
  }

  /// From here on no call begins new work; a compaction under way ends at its next step.
  ///
  /// - Returns: whether no other call has begun to close the store.
  private func beginToClose() -> Bool {
    let isFirst = lifecycle.close()
    if isFirst { closing.begin() }
    compaction.reaping.cancel()
    guard pipeline.isInItsProcess else {
      // In a forked child, a thread of the parent may have held the locks of the observers and the
      // readers.
      readers.waiters.wakeAll()
      return isFirst
    }
    observers.setUsable(false)
    refreshReaders()
    wakeForChange()
    return isFirst
  }

  private func endInOrder(_ isFirst: Bool) async -> StoreError? {
    guard isFirst else {
      // In a forked child, the parent's call does not end.
      guard closing.isUnderWay, pipeline.isInItsProcess else { return nil }
      return await closing.waitForEnd()
    }
    // In a forked child, the parent's tasks that would end these waits do not exist.
    if pipeline.isInItsProcess {
      await compaction.waitForEnd()
      await writing.roomGate.waitUntilFree()
    }
    let failure = await end()
    // No event follows this one: all threads of the store have ended their work.
    send(.closed(failure: failure))
    await pipeline.events?.delivered()
    closing.end(failure)
    return failure
  }

  private func end() async -> StoreError? {
    // In a forked child, a task of the parent may have the gate for ever.
    let takesGate = pipeline.isInItsProcess
    if takesGate { writing.roomGate.take() }
    defer {
      pipeline.stop()
      if takesGate { writing.roomGate.release() }
    }
    defer { observers.phase.end() }
    do throws(StoreError) { try await leaveDirectory() } catch { return error }
    return nil
  }

  /// Ends the log, and releases all files and locks, even after an error. The caller holds the
  /// gate, except in a forked child.
  func leaveDirectory() async throws(StoreError) {
    defer {
      peers.endWatching()
      if engine?.isInItsProcess == true {
        let known = pipeline.knownManifest
        lifecycle.leave(StoreHistory(known == nil ? engine!.log.manifest : known!))
      }
      if engine != nil { lifecycle.leave(appendedBytes: engine!.log.appendedBytes) }
      pipeline.endWatch()
      // Release the locks explicitly: an object that still refers to them would keep the directory
      // locked after `close()` has returned. A forked child must not release its parent's locks.
      if engine?.isInItsProcess == true {
        engine?.log.link?.leave()
        engine?.lockHandle()?.unlock()
      }
      engine = nil
      peers.endRefusal()
      // The next opening cuts or removes the files.
      (incoming, receivedCount) = ([], 0)
      // After a suspension, their names may belong to another store.
      _ = compaction.takeUnremoved()
      peers.recordNewState()
    }
    // After a fork, the log and the threads that would end it belong to the parent.
    guard engine?.isInItsProcess == true else { return }
    // The last writer may have begun to create or to list a segment, a follower to receive one.
    await writing.waitForSegmentTasks()
    var failure: StoreError?
    do throws(StoreError) {
      if !pipeline.hasPoison, !opener.configuration.isReadOnly {
        try await pipeline.run { [pipeline] () throws(StoreError) in try pipeline.checkPresence() }
        if isShared { try await leaveForGood() } else { try await sealForGood() }
      }
    } catch {
      failure = error
    }
    // After an error, a task of this process may still be taking over the log.
    while peers.isTakingOver { await peers.waitForTakeover() }
    peers.beginRefusal()
    // A task may have taken over the log while this one waited for its end; none does from now on.
    if isShared, failure == nil, !pipeline.hasPoison, !opener.configuration.isReadOnly {
      do throws(StoreError) { try await pipeline.waitUntilAllDurable() } catch { failure = error }
    }
    // A snapshot that ends from now on removes no file: the next opening does that.
    pipeline.endStay(isLast: isClosed)
    // Jobs run in order: when these empty jobs have run, no job uses the directory any more.
    for queue in [peers.rereadQueue, pipeline.allocations].compactMap({ $0 }) {
      do throws(StoreError) { try await queue.run { () throws(StoreError) in } } catch {
        failure = failure ?? error
      }
    }
    try await pipeline.run { () throws(StoreError) in }
    // After an error, operations may still wait for a sync of the file.
    if let failure { throw failure }
    pipeline.leaveSegment()
    if let poison = pipeline.poison, poison.code == .storeReplaced { throw poison }
  }

  func sealForGood() async throws(StoreError) {
    // Release the reserve first: on a full disk, the footer and the manifest need its space. If it
    // cannot be released, all writes still become durable.
    var failure: StoreError?
    do throws(StoreError) { _ = try await releaseReserve() } catch { failure = error }
    let spare = engine?.log.spare
    engine?.log.spare = nil
    // A compaction may have sealed and listed the active segment already.
    if engine?.log.active != nil || spare != nil {
      try await sealActive()
      try await publishManifest()
    }
    // Where this fails, the next opening removes the file.
    if let spare { do throws(StoreError) { try await discard(spare) } catch {} }
    if isCheckpointWorthItAtClose { try await writeCheckpoint(on: pipeline) }
    if let failure { throw failure }
  }

  /// Ends the active segment and makes it durable. The manifest still lists it as open.
  func sealActive() async throws(StoreError) {
    let pipeline = pipeline
    try await settleAllocation()
    try engine!.appendFooter()
    guard let seal = engine!.log.sealActive() else { return }
    try await pipeline.run { () throws(StoreError) in try seal.run(pipeline) }
    if !isClosed, !isSuspended { seal.prefault() }
    pipeline.beginSegment(file: nil, sequence: engine!.log.lastSequence, offset: 0)
  }
}

/// Opens a store, runs the body, and closes the store, also when the body throws.
///
/// - Throws: the body's error, or else the error of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at directory: FilePath, configuration: Store.Configuration = .init(),
  _ body: (Store) async throws -> Result
) async throws -> Result {
  let store = try await Store.open(at: directory, configuration: configuration)
  let result: Result
  do {
    result = try await body(store)
  } catch {
    let cause = error
    // Throw the body's error: an error of closing is mostly its consequence.
    do { try await store.close() } catch {}
    throw cause
  }
  try await store.close()
  return result
}

/// Opens the store in the directory with this path, runs the body, and closes the store, also when
/// the body throws.
///
/// - Throws: the body's error, or else the error of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at path: String, configuration: Store.Configuration = .init(),
  _ body: (Store) async throws -> Result
) async throws -> Result {
  try await withStore(at: FilePath(path), configuration: configuration, body)
}
