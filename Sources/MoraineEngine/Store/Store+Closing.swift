import MoraineFormat
import MoraineStorage
public import SystemPackage

extension Store {
  /// Seals the log and gives the directory free. Closing twice is no error.
  ///
  /// Everything written is on stable storage when this returns.
  ///
  /// - Throws: `.poisoned`, `.noSpace`, `.io`; the store is closed even so, and opening it again is
  ///   safe. A store that was poisoned before has said so already, and closes without a word, but
  ///   for `.storeReplaced`: then nothing was written to the directory, and what was written since
  ///   the files were replaced may be lost.
  public func close() async throws(StoreError) {
    // From here on no call begins anything; a compaction under way ends at its next step.
    let isFirst = lifecycle.close()
    observers.life.beginClosing()
    observers.setUsable(false)
    wakeForChange()
    // An opening of the same directory in this process waits for this one, and may keep a thread of
    // the cooperative pool that long: from here on none is needed.
    let failure = await withTaskExecutorPreference(pipeline.taskExecutor) {
      // The actor is free before the thread is there, so it is taken on that thread.
      await moveToPreferredExecutor()
      return await endInOrder(isFirst)
    }
    if let failure { throw failure }
  }

  private func endInOrder(_ isFirst: Bool) async -> StoreError? {
    await compaction.waitForEnd()
    await writing.roomGate.waitUntilFree()
    guard isFirst else { return nil }
    let failure = await end()
    // Nothing comes behind this one: all threads of the store have ended their work.
    tell(.closed(failure: failure))
    await pipeline.events?.delivered()
    return failure
  }

  private func end() async -> StoreError? {
    writing.roomGate.take()
    defer {
      pipeline.stop()
      writing.roomGate.release()
    }
    defer { observers.life.end() }
    do throws(StoreError) { try await leaveDirectory() } catch { return error }
    return nil
  }

  /// Ends the log, and gives up all files and locks, whatever goes wrong. The caller has the gate.
  func leaveDirectory() async throws(StoreError) {
    defer {
      sharing.watch?.stop()
      sharing.watch = nil
      pipeline.endWatch()
      // Explicitly: an object that still refers to the lock would keep the directory locked after
      // `close()` has returned. A forked child must not release what its parent holds.
      if engine?.isInItsProcess == true { engine?.lockHandle()?.unlock() }
      engine = nil
      sharing.stateCount += 1
    }
    // After a fork the log, and the thread that would end it, are the parent's.
    guard engine?.isInItsProcess == true else { return }
    var failure: StoreError?
    do throws(StoreError) {
      if !pipeline.hasPoison, !opener.configuration.isReadOnly {
        try await pipeline.run { [pipeline] () throws(StoreError) in try pipeline.checkPresence() }
        if isShared { try await leaveForGood() } else { try await sealForGood() }
      }
    } catch {
      failure = error
    }
    // Jobs run in order: behind these empty ones, nothing uses the directory any more.
    if let queue = sharing.rereadQueue {
      do throws(StoreError) { try await queue.run { () throws(StoreError) in } } catch {
        failure = failure ?? error
      }
    }
    try await pipeline.run { () throws(StoreError) in }
    if let failure { throw failure }
    if let poison = pipeline.poison, poison.code == .storeReplaced { throw poison }
  }

  func sealForGood() async throws(StoreError) {
    // First: on a full disk it is what the footer and the manifest need. Where it cannot be given
    // back, what was written becomes durable all the same.
    var failure: StoreError?
    do throws(StoreError) { _ = try await releaseReserve() } catch { failure = error }
    // A compaction may have sealed it, and listed it, already.
    if engine?.active != nil {
      try await sealActive()
      try await publishManifest()
    }
    if isCheckpointWorthItAtClose { try await writeCheckpoint(on: pipeline) }
    if let failure { throw failure }
  }

  /// Ends the active segment and makes it durable. The manifest still lists it as open.
  func sealActive() async throws(StoreError) {
    let pipeline = pipeline
    try engine!.appendFooter()
    guard let seal = engine!.sealActive() else { return }
    try await pipeline.run { () throws(StoreError) in try seal.run(pipeline) }
    pipeline.begin(file: nil, sequence: engine!.lastSequence, offset: 0)
  }
}

/// Opens a store for the length of the body, and closes it whatever happens.
///
/// - Throws: what the body throws, or else what opening or closing throws.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at directory: FilePath, configuration: Configuration = .init(),
  _ body: (Store) async throws -> Result
) async throws -> Result {
  let store = try await Store.open(at: directory, configuration: configuration)
  let result: Result
  do {
    result = try await body(store)
  } catch {
    let cause = error
    // The body's error comes first: what closing says is mostly its consequence.
    do { try await store.close() } catch {}
    throw cause
  }
  try await store.close()
  return result
}

/// Opens the store in the directory with this path for the length of the body, and closes it in any
/// case.
///
/// - Throws: the body's error, or else the error of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at path: String, configuration: Configuration = .init(),
  _ body: (Store) async throws -> Result
) async throws -> Result {
  try await withStore(at: FilePath(path), configuration: configuration, body)
}
