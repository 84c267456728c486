import MoraineFormat
import MoraineStorage
import SystemPackage

extension Store {
  /// Gives up all locks, so that the system may suspend the process: iOS ends an app that holds a
  /// lock in a shared container then. What was written is on stable storage when this returns.
  ///
  /// Until ``resume()`` every call throws ``StoreError/Code/suspended``; change sequences wait.
  ///
  /// - Throws: `.poisoned`, `.noSpace`, `.io`; the locks are free even so.
  public func suspend() async throws(StoreError) {
    await sharing.turnGate.acquireInTurn()
    defer { sharing.turnGate.passOn() }
    guard !isSuspended, !isClosed else { return }
    lifecycle.suspend()
    observers.setUsable(false)
    await compaction.waitForEnd()
    await writing.roomGate.waitUntilFree()
    guard !isClosed else { return }
    sharing.wasThere = engine != nil
    guard engine != nil else { return }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    do throws(StoreError) {
      try await leaveDirectory()
    } catch {
      tell(.suspended(failure: error))
      throw error
    }
    tell(.suspended(failure: nil))
  }

  /// Opens the store again after ``suspend()``; others may have written meanwhile.
  ///
  /// - Throws: as ``init(at:configuration:)``; the store stays suspended then.
  public func resume() async throws(StoreError) {
    await sharing.turnGate.acquireInTurn()
    defer { sharing.turnGate.passOn() }
    await writing.roomGate.waitUntilFree()
    if isClosed { throw closedError }
    guard isSuspended else { return }
    if let poison = pipeline.poison { throw poison }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    if sharing.wasThere { try await openAgain() }
    lifecycle.resume()
    wakeForChange()
    // Closing, which waits for the gate, ends what was opened just now.
    if isClosed { throw closedError }
    observers.setUsable(true)
  }

  private func openAgain() async throws(StoreError) {
    precondition(engine == nil, "a suspended store has the directory open")
    let box = try await opener.openWithoutBlocking(creating: false)
    engine = box.take()
    guard engine != nil else {
      throw StoreError(
        .notAStore, "the store vanished while it was suspended", file: opener.path.string)
    }
    engine!.keyspaces.recordCommitToAll()
    begunFollowing()
    tellOpened()
  }
}

extension Store {
  /// Has this process woken when others write.
  ///
  /// - Returns: whether something cannot be read, which the caller should hear of at once.
  func watchOthers() async -> Bool {
    do throws(StoreError) {
      try beginWatching()
      // What came before the watch began.
      try await catchUp()
      guard sharing.watch == nil else { return false }
      // It may have been opened since, or the look that was due may have found nobody waiting.
      try beginWatching()
      if sharing.watch != nil { try await catchUp() }
      return false
    } catch {
      return true
    }
  }

  private func beginWatching() throws(StoreError) {
    guard sharing.watch == nil, !isSuspended else { return }
    guard let page = engine?.link?.page else { return lookLater() }
    let directory = engine!.directoryHandle()
    let watch = PeerWatcher(page) { [weak self] in
      guard let self else { return }
      Task { await self.hearOfOthers() }
    }
    try storing { () throws(StorageError) in
      try watch.start { (look) throws(StorageError) in
        try directory.watchFile(FileName.sharedPage, look)
      }
    }
    sharing.watch = watch
  }

  /// A store that nobody has made yet has nothing that could be watched.
  private func lookLater() {
    guard !sharing.looksLater else { return }
    sharing.looksLater = true
    Task { [weak self] in
      // Nobody cancels it.
      do { try await Task.sleep(for: .milliseconds(20)) } catch {}
      await self?.look()
    }
  }

  private func look() {
    sharing.looksLater = false
    wakeForChange()
  }

  private func hearOfOthers() async {
    sharing.watch?.heard()
    do throws(StoreError) { try await catchUp() } catch {
      // Whoever waits asks again, and is told.
    }
    wakeForChange()
  }
}
