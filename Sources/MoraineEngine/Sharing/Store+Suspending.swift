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
    guard !isSuspended, !isClosed else { return }
    isSuspended = true
    observers.setUsable(false)
    await compactionEnded()
    while isMakingRoom { await withUnsafeContinuation { gate.append($0) } }
    guard !isClosed, engine != nil else { return }
    isMakingRoom = true
    defer { openGate() }
    sharing.wasThere = true
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
    while isMakingRoom { await withUnsafeContinuation { gate.append($0) } }
    if isClosed { throw StoreError(.closed, "the store was closed; open it again") }
    guard isSuspended else { return }
    if let poison = pipeline.poison { throw poison }
    isMakingRoom = true
    defer { openGate() }
    if sharing.wasThere {
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
    isSuspended = false
    observers.setUsable(true)
    wakeForChange()
  }
}
