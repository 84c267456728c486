import MoraineFormat
import MoraineStorage
import SystemPackage

extension Store {
  /// Releases all locks, so that the system may suspend the process: iOS ends an app that holds a
  /// lock in a shared container when it is suspended. All writes are on stable storage when this
  /// returns.
  ///
  /// Until ``resume()``, every throwing method throws ``StoreError/Code/suspended``; change
  /// sequences wait.
  ///
  /// - Throws: `.poisoned`, `.noSpace`, `.io`; the error of writes that a ``WriteQueue`` has
  ///   dropped, if no other call has thrown it. The locks are released in any case.
  public func suspend() async throws(StoreError) {
    guard pipeline.isInItsProcess else { return try await suspendInAChild() }
    await lifecycle.turnGate.acquireInTurn()
    defer { lifecycle.turnGate.passOn() }
    guard !isSuspended, !isClosed else { return }
    if writing.stopQueues(.ofSuspendedStore) { await writing.applyQueues() }
    guard !isClosed else { return }
    lifecycle.suspend()
    compaction.reaping.cancel()
    refreshReaders()
    observers.setUsable(false)
    await compaction.waitForEnd()
    await writing.roomGate.waitUntilFree()
    guard !isClosed else { return }
    lifecycle.leave(exists: engine != nil)
    let dropped = writing.takeUnreportedFailure()
    guard engine != nil else {
      if let dropped { throw dropped }
      return
    }
    assert(!compaction.isRunning, "a store is suspended during a compaction")
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    do throws(StoreError) {
      try await leaveDirectory()
    } catch {
      reportReplacement()
      send(.suspended(failure: error))
      throw error
    }
    precondition(engine == nil, "a suspended store has the directory open")
    send(.suspended(failure: nil))
    if let dropped { throw dropped }
  }

  /// Suspends a forked child's copy of the store. The child waits for no gate: the parent's task
  /// that has it does not exist here. It takes no lock of the readers and the observers either,
  /// because a thread of the parent may have held it.
  private func suspendInAChild() async throws(StoreError) {
    guard !isSuspended, !isClosed else { return }
    lifecycle.suspend()
    compaction.reaping.cancel()
    lifecycle.leave(exists: engine != nil)
    if engine != nil { try await leaveDirectory() }
  }

  /// Opens the store again after ``suspend()``. Other processes may have written in between.
  ///
  /// - Throws: the errors of ``init(at:configuration:)``; the store stays suspended then.
  ///   `.storeReplaced` when the files are now those of another store, of a restored one, of a
  ///   follower that was promoted since, or an older state of this one: iterators would miss
  ///   changes. All later calls, and the iterators that wait, throw that error too: close this
  ///   store, and open the path again.
  public func resume() async throws(StoreError) {
    await lifecycle.turnGate.acquireInTurn()
    defer { lifecycle.turnGate.passOn() }
    await writing.roomGate.waitUntilFree()
    if isClosed { throw closedError }
    guard isSuspended else { return }
    if let poison = pipeline.poison {
      reportReplacement()
      throw poison
    }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    if lifecycle.existed { try await openAgain() }
    lifecycle.resume()
    refreshReaders()
    scheduleReaping()
    wakeForChange()
    // `close()` waits for the gate, and then closes the state that was just opened.
    if isClosed { throw closedError }
    observers.setUsable(true)
    if pipeline.isInItsProcess, !observers.phase.isClosing { writing.startQueues() }
    recheck()
  }

  /// Makes readers and iterators throw `.storeReplaced`, if the store's files are replaced.
  private func reportReplacement() {
    guard wasReplaced else { return }
    refreshReaders()
    wakeForChange()
  }

  private func openAgain() async throws(StoreError) {
    precondition(engine == nil, "a suspended store must not have the directory open")
    var opener = opener
    opener.left = lifecycle.left
    let box: EngineBox
    do throws(StoreError) { box = try await opener.openWithoutBlocking(creating: false) } catch {
      if wasReplaced {
        if !isClosed, pipeline.isInItsProcess { _ = writing.stopQueues(error) }
        reportReplacement()
      }
      throw error
    }
    engine = box.take()
    pipeline.replication.beginStay(pipeline.stay)
    guard engine != nil else {
      throw StoreError(
        .notAStore, "the store was removed while it was suspended", file: opener.path.string)
    }
    // The figures of the store are those since its opening, not since its resumption.
    let appended = lifecycle.leftAppendedBytes
    engine!.log.continueCount(after: appended)
    checkpoints.beginCounting(
      names: engine!.checkpointNames, writtenBytes: appended &+ compaction.writtenBytes)
    engine!.recordForeignCommits()
    begunFollowing()
    sendOpened()
  }
}

extension Store {
  /// Begins to wake this process when other processes write.
  ///
  /// - Returns: whether a read failed. Then the caller should read again at once, to get the error.
  func watchOthers() async -> Bool {
    do throws(StoreError) {
      try beginWatching()
      // Apply the records that were written before the watch began.
      try await catchUp()
      guard peers.watch == nil else { return false }
      // The store may have been opened since, or the scheduled look may have found no waiting task.
      try beginWatching()
      if peers.watch != nil { try await catchUp() }
      return false
    } catch {
      return true
    }
  }

  private func beginWatching() throws(StoreError) {
    guard peers.watch == nil, !isSuspended else { return }
    guard let page = engine?.log.link?.page else { return lookLater() }
    let directory = engine!.directoryHandle()
    let watch = PeerWatcher(page) { [weak self] in
      guard let self else { return }
      Task { await self.applyNewPeerWrites() }
    }
    try storing { () throws(StorageError) in
      try watch.start { (look) throws(StorageError) in
        try directory.watchFile(FileName.sharedPage, look)
      }
    }
    peers.beginWatching(watch)
  }

  /// Schedules a look at a store that does not exist yet, and so has nothing that could be watched.
  private func lookLater() {
    guard peers.beginScheduledLook() else { return }
    Task { [weak self] in
      // No code cancels this task.
      do { try await Task.sleep(for: .milliseconds(20)) } catch {}
      await self?.look()
    }
  }

  private func look() {
    peers.endScheduledLook()
    wakeForChange()
  }

  private func applyNewPeerWrites() async {
    peers.watch?.heard()
    do throws(StoreError) { try await catchUp() } catch {
      // The waiting task reads again, and gets the error.
    }
    wakeForChange()
  }
}
