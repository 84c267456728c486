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
    isSuspended = true
    observers.setUsable(false)
    await compactionEnded()
    await roomGate.waitUntilFree()
    guard !isClosed else { return }
    sharing.wasThere = engine != nil
    guard engine != nil else { return }
    roomGate.take()
    defer { roomGate.release() }
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
    await roomGate.waitUntilFree()
    if isClosed { throw closedError }
    guard isSuspended else { return }
    if let poison = pipeline.poison { throw poison }
    roomGate.take()
    defer { roomGate.release() }
    if sharing.wasThere { try await openAgain() }
    isSuspended = false
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
    engine!.keyspaces.noteAll()
    begunFollowing()
    tellOpened()
  }
}
