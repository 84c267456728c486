import MoraineFormat
import MoraineStorage

extension Store {
  /// Waits while another writer makes room.
  func passGate() async throws(StoreError) {
    await writing.roomGate.waitUntilFree()
    if isShared, engine == nil { try await joinOthers() }
    try checkUsable()
  }

  /// Keeps all other writers out until ``endUnit(_:)``, also those of other processes: what is read
  /// in between holds when it is written.
  ///
  /// - Returns: whether that needed the gate; in a store of one's own it does not.
  func beginUnit() async throws(StoreError) -> Bool {
    try await passGate()
    guard isShared, !opener.configuration.isReadOnly else {
      try await checkOpen()
      return false
    }
    writing.roomGate.take()
    do throws(StoreError) {
      if engine == nil { try await beginStore() }
      _ = try await acquireWriterLease()
    } catch {
      writing.roomGate.release()
      throw error
    }
    return true
  }

  func endUnit(_ hasGate: Bool) {
    guard hasGate else { return }
    releaseWriterLease()
    writing.roomGate.release()
  }

  /// Runs the attempt, making room for it until there is enough. No other writer comes between the
  /// attempts, unless it waits for space to be freed.
  ///
  /// - Parameters:
  ///   - isDelete: whether it may use the space that is kept back for a full disk.
  ///   - mayWait: whether others may come before it while a full disk is being cleaned.
  ///   - keyspaces: that must be there before.
  ///   - hasGate: whether the caller has the gate, and keeps it. It does not let others pass then.
  func withRoom<Value>(
    isDelete: Bool = false, mayWait: Bool = false, creating keyspaces: [String] = [],
    hasGate: Bool = false, _ attempt: (inout EngineState) throws(StoreError) -> Outcome<Value>
  ) async throws(StoreError) -> Value {
    precondition(!hasGate || !mayWait, "a unit lets no other writer pass")
    if !hasGate { writing.roomGate.take() }
    defer { if !hasGate { writing.roomGate.release() } }
    if engine == nil { try await beginStore() }
    var hasLease = try await acquireWriterLease()
    defer { if hasLease { releaseWriterLease() } }
    var seen: UInt64?
    var hasWaitedForSpace = false
    // What a compaction has taken from the reserve is for its copies, which free more than deletes.
    if isDelete, mayWait, compaction.hasReserve { try await waitForCompaction(&hasLease) }
    while true {
      do throws(StoreError) {
        if !keyspaces.isEmpty { try await createKeyspaces(keyspaces) }
        switch try attempt(&engine!) {
        case .done(let value):
          wakeForChange()
          return value
        case .needsRoom(let count):
          if !isDelete { try await keepReserve() }
          try await makeRoom(for: count, isDelete: isDelete)
        }
      } catch {
        guard error.code == .noSpace else { throw error }
        tellOutOfSpace(error)
        compactBecauseFull()
        // Deletes on a full disk are what the space was kept back for; but a compaction under way
        // needs some of it to free more, and had no turn perhaps.
        let canBeFreed = mayWait && compaction.isForFullDisk && !hasWaitedForSpace
        if isDelete, !canBeFreed, try await shrinkReserve() { continue }
        // Another wait makes sense as long as the last one brought something.
        guard mayWait, compaction.isRunning, !hasWaitedForSpace || seen != compaction.count else {
          throw error
        }
        seen = compaction.count
        // What was under way may have been a checkpoint alone, which frees nothing.
        hasWaitedForSpace = hasWaitedForSpace || compaction.isForFullDisk
        try await waitForCompaction(&hasLease)
      }
    }
  }

  /// Lets others pass, and takes the gate again when a compaction has ended.
  private func waitForCompaction(_ hasLease: inout Bool) async throws(StoreError) {
    if hasLease { releaseWriterLease() }
    hasLease = false
    writing.roomGate.release()
    await compaction.waitForEnd()
    do throws(StoreError) {
      try await passGate()
    } catch {
      // The caller opens it at the end.
      writing.roomGate.take()
      throw error
    }
    writing.roomGate.take()
    hasLease = try await acquireWriterLease()
  }

  /// Makes the store on disk; somebody else may have done so since this one was opened.
  private func beginStore() async throws(StoreError) {
    let box = try await opener.openWithoutBlocking(creating: true)
    // A read may have found it meanwhile, made by another process.
    guard engine == nil else { return }
    engine = box.take()
    begunFollowing()
    tellOpened()
  }

  /// Gives deletes what was kept back for them.
  ///
  /// - Returns: whether there was anything left.
  private func shrinkReserve() async throws(StoreError) -> Bool {
    guard engine != nil else { return false }
    let before = engine!.reserve.lengthBytes
    let target = Reserve.target(liveBytes: engine!.liveBytes)
    try await changeReserve { (reserve) throws(StorageError) in try reserve.shrink(for: target) }
    return engine != nil && engine!.reserve.lengthBytes < before
  }

  /// Gives up all that was kept back, for what frees more.
  ///
  /// - Returns: whether there was anything left.
  func releaseReserve() async throws(StoreError) -> Bool {
    guard engine != nil, engine!.reserve.lengthBytes > 0 else { return false }
    try await changeReserve { (reserve) throws(StorageError) in try reserve.release() }
    compaction.reserveWasReleased()
    return true
  }

  /// Keeps back again what a compaction had taken, before deletes can take it: the next compaction
  /// will need it, and if this one failed, all the more.
  func restoreReserve() async {
    guard compaction.hasReserve, engine != nil, !isClosed, !pipeline.hasPoison else { return }
    let target = Reserve.target(liveBytes: engine!.liveBytes)
    do throws(StoreError) {
      try await passGateToCompact()
      writing.roomGate.take()
      defer { writing.roomGate.release() }
      try await changeReserve { (reserve) throws(StorageError) in try reserve.restore(target) }
    } catch {
      // The next put keeps it back, or is told why that cannot be done.
    }
  }

  /// Puts must not use up what others were promised.
  private func keepReserve() async throws(StoreError) {
    let target = Reserve.target(liveBytes: engine!.liveBytes)
    if engine!.reserve.holds(target) { return }
    try await changeReserve { (reserve) throws(StorageError) in try reserve.keep(target) }
  }

  private func changeReserve(
    _ change: @escaping @Sendable (inout Reserve) throws(StorageError) -> Void
  ) async throws(StoreError) {
    let before = engine!.reserve
    let after = try await pipeline.run { () throws(StoreError) in
      var reserve = before
      try storing { () throws(StorageError) in try change(&reserve) }
      return reserve
    }
    if engine != nil { engine!.reserve = after }
  }
}

extension Store {
  /// Ends the active segment and begins the next; the old one is sealed in the background.
  ///
  /// The manifest first lists both as open, so that a kill at any moment finds every record. Once
  /// the old one is durable, it lists it as sealed. Until then nothing in the new one can become
  /// durable, and no further segment can be born: the committing thread does one after the other.
  func rotate(for count: Int) async throws(StoreError) {
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    let pipeline = pipeline
    if isShared {
      // At once, under the lock: what is left for later, another process would have to wait for.
      try await sealActive()
    } else {
      try engine!.appendFooter()
    }
    let birth = engine!.nextSegmentCreation(for: count)
    let child: SegmentCreation.Child
    do throws(StoreError) {
      child = try await pipeline.run { () throws(StoreError) in try birth.run(pipeline) }
    } catch {
      engine!.giveBack(birth.header.number)
      throw error
    }
    let full = engine!.adopt(child, birth)
    let next = engine!.nextManifest(sealing: full)
    let publisher = engine!.publisher()
    do throws(StoreError) {
      try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    } catch {
      engine!.abandonActive(for: full)
      // Beside others its number is not given again, and nobody would remove what it has allocated.
      if isShared, !pipeline.hasPoison {
        try await pipeline.run { () throws(StoreError) in try birth.discard() }
      }
      throw error
    }
    engine!.adoptManifest(next)
    let length = UInt64(birth.header.headerLength)
    guard let full else {
      pipeline.begin(file: child.file, sequence: next.lastSequence.rawValue, offset: length)
      // What an earlier life has left.
      compactIfWorthIt()
      return
    }
    let seal = engine!.sealWork(full.segment)
    let after = engine!.manifestAfterSealing(full.segment)
    pipeline.begin(file: child.file, offset: length) { seal.runInBackground(publisher, after) }
    compactIfWorthIt()
  }

  /// Puts what the manifest should say now in place.
  func publishManifest() async throws(StoreError) {
    let next = engine!.nextManifest()
    let publisher = engine!.publisher()
    try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    engine!.adoptManifest(next)
  }
}

extension Store {
  /// Gets space for `count` bytes of records: more of this segment, or the next one.
  func makeRoom(for count: Int, isDelete: Bool) async throws(StoreError) {
    let capacity = engine!.capacity(for: count)
    if case .enough = capacity { return }
    // Deletes are no garbage that would grow without end, and may be what frees a full disk.
    if !isDelete { await yieldToCompaction(before: engine!.nextStepBytes()) }
    switch capacity {
    case .enough: return
    case .extendAhead:
      // Whether there is space is not known yet.
      engine!.extendAhead()
      return
    case .extend: try await extend(for: count)
    case .rotate: try await rotate(for: count)
    }
    // What deletes are given was kept back for them.
    if !isDelete { writing.foundSpace() }
  }

  private func extend(for count: Int) async throws(StoreError) {
    if engine!.active?.ticket != nil {
      // Jobs run in order: behind this empty one, the extension is done.
      try await pipeline.run { () throws(StoreError) in }
      engine!.redeemTicket()
      if engine!.capacity(for: count) != .extend { return }
    }
    guard let work = engine!.extensionWork(for: count) else { return }
    let end = try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try work.run() }
    }
    engine!.extended(to: end)
  }
}
