import MoraineFormat
import MoraineStorage
import SystemPackage

/// Appending beside other processes: one at a time has the writer's lock.
extension Store {
  /// Takes the writer's lock of a shared store, and all that others have written. Whoever in this
  /// process comes while it is held has it too.
  ///
  /// - Returns: whether ``releaseWriterLease()`` is to be called; false in a store of one's own.
  /// - Throws: `.locked`, `.poisoned`, `.corrupted`, `.io`, `.usedAfterFork`; the lock is free
  ///   then.
  func acquireWriterLease() async throws(StoreError) -> Bool {
    guard isShared, !opener.configuration.isReadOnly, engine?.link != nil else { return false }
    // In a forked child the kernel's locks are the parent's, and so is what the page says.
    try engine!.checkProcess()
    await sharing.entryGate.waitUntilFree()
    guard let link = engine?.link, sharing.leaseDepth == 0 else {
      sharing.leaseDepth += 1
      return true
    }
    sharing.entryGate.take()
    defer { entered() }
    try await link.waitForWriterWithoutBlocking()
    sharing.isTakingOver = true
    do throws(StoreError) {
      try await takeOver(link)
    } catch {
      link.freeWriter()
      throw error
    }
    // What a reader is reading again on a thread is older than what this writer appends.
    sharing.stateCount += 1
    sharing.leaseDepth = 1
    return true
  }

  /// Takes in all that others have written, and lets the committing thread know of it.
  func catchUpAsWriter() async throws(StoreError) {
    if try await acquireWriterLease() { releaseWriterLease() }
  }

  private func entered() {
    sharing.isTakingOver = false
    sharing.entryGate.release()
  }

  /// Brings the state to what the log says, and the log to a shape that can be appended to.
  private func takeOver(_ link: SharedLink) async throws(StoreError) {
    let page = link.page
    if page.load(.poison) != 0 {
      pipeline.poison(
        StoreError(.io, "a sync of another process failed", file: opener.path.string))
      if let poison = pipeline.poison { throw poison }
    }
    if page.load(.leaseHolder) != 0 { return try await takeOverFromDead(link) }
    if page.load(.version) == sharing.adoptedVersion, engine!.active != nil {
      page.store(UInt64(CurrentProcess.id), .leaseHolder)
      return
    }
    guard let snapshot = page.snapshot() else { return try await takeOverFromDead(link) }
    try await followAsWriter()
    if engine!.hasOpenTail(), snapshot.tailLimit == 0 {
      // Its writer could not end it; the disk was full perhaps.
      return try await takeOverFromDead(link)
    }
    try engine!.adoptTail(snapshot)
    page.store(UInt64(CurrentProcess.id), .leaseHolder)
  }

  /// Ends the segment in which a writer died: nobody appends behind what it may have left.
  private func takeOverFromDead(_ link: SharedLink) async throws(StoreError) {
    link.page.store(UInt64(CurrentProcess.id), .leaseHolder)
    let directory = engine!.directoryHandle()
    try await synchronizeNames(of: directory)
    // What the dead one was just publishing is in the log. What this process knows is older perhaps
    // than what others have seen, and not to be published before the rest is known.
    var known = engine!.sharedSnapshot()
    known.nonce = sharing.nonce
    known.version = link.page.load(.version)
    // The manifest may have been replaced, and nobody told of it.
    var isKnown = !engine!.isFollowedInPart
    if isKnown { isKnown = try engine!.followManifest(SharedPage.Publication()) }
    if !isKnown { try await rereadAsWriter(to: link.page.snapshot() ?? known) }
    let tail = try engine!.recoverTail()
    // Only now: the records of the tail have lower numbers, and they rise.
    engine!.lastSequence = max(engine!.lastSequence, link.page.lastSequenceWhateverDied)
    guard let segment = tail else { return }
    if !segment.isEmpty { try await makeDurable(segment, directory) }
    engine!.sealRecoveredTail(segment)
    do throws(StoreError) {
      try await publishManifest()
    } catch {
      guard error.code == .noSpace, try await releaseReserve() else { throw error }
      try await publishManifest()
    }
    pipeline.begin(file: nil, sequence: engine!.lastSequence, offset: 0)
    engine!.keyspaces.recordCommitToAll()
    guard segment.isEmpty else { return }
    try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try directory.remove(segment.name) }
    }
  }

  /// The writer that died may have renamed a manifest and not made that durable: nothing is
  /// created, removed or trusted before it is.
  private func synchronizeNames(of directory: any StorageDirectory) async throws(StoreError) {
    let pipeline = pipeline
    try await pipeline.run { () throws(StoreError) in
      do throws(StorageError) { try directory.synchronize() } catch {
        pipeline.poison(StoreError(error))
        throw StoreError(error)
      }
    }
  }

  private func makeDurable(
    _ segment: OpenSegment, _ directory: any StorageDirectory
  ) async throws(StoreError) {
    let (before, reserve) = (engine!.report, engine!.reserve)
    let after = try await pipeline.run { () throws(StoreError) in
      var (report, reserve) = (before, reserve)
      let isNew = try segment.makeDurable(directory, &reserve, &report)
      return (report: report, reserve: reserve, isNew: isNew)
    }
    engine!.report = after.report
    engine!.reserve = after.reserve
    if after.isNew { try engine!.reopenFile(segment.slot, length: segment.end) }
  }

  /// Also what one of several in a burst has appended is published at once: it may be acknowledged
  /// before the last one leaves, and a process that only reads must find it.
  private func publishAppends(_ page: SharedPage) {
    var snapshot = engine!.sharedSnapshot()
    if writing.manifestGate.isHeld, sharing.leaseDepth > 0 {
      // The manifest that goes with the segments may not be there yet; the tail is what it was.
      guard let before = page.snapshot(), before.tailSegment == snapshot.tailSegment,
        before.tailLimit == snapshot.tailLimit
      else { return }
      snapshot.generation = before.generation
    }
    page.publish(snapshot)
    if sharing.leaseDepth == 0 { page.store(0, .leaseHolder) }
    see(page.load(.version))
    sharing.adoptedVersion = sharing.seenVersion
  }

  /// Publishes what was appended, and lets others write when the last one leaves.
  func releaseWriterLease() {
    precondition(sharing.leaseDepth > 0, "a lock is left that was not taken")
    sharing.leaseDepth -= 1
    guard let link = engine?.link else { return }
    let page = link.page
    if pipeline.hasPoison {
      page.store(1, .poison)
    } else {
      publishAppends(page)
    }
    if sharing.leaseDepth == 0 { link.freeWriter() }
    do throws(StoreError) {
      try link.ring()
    } catch {
      // They look by themselves once a second.
    }
  }
}

/// One process at a time rewrites segments; and the last one ends the log.
extension Store {
  /// - Returns: false while another process rewrites segments. In a store of one's own always true.
  func takeCompactor() throws(StoreError) -> Bool {
    guard isShared, let link = engine?.link else { return true }
    try engine!.checkProcess()
    sharing.hasCompactor = try link.tryCompactor()
    return sharing.hasCompactor
  }

  /// Takes in what others have rewritten. From here on nobody does.
  func beginRewriting() async throws(StoreError) {
    try await catchUpAsWriter()
    sharing.keepsSlots = sharing.hasCompactor
  }

  func freeCompactor() {
    guard sharing.hasCompactor else { return }
    sharing.hasCompactor = false
    sharing.keepsSlots = false
    engine?.link?.freeCompactor()
  }

  /// Lets a little time pass.
  func pause() async throws(StoreError) {
    do { try await Task.sleep(for: .milliseconds(5)) } catch {
      throw StoreError(.cancelled, "the task was cancelled while another process was compacting")
    }
    try checkUsable()
  }

  /// Ends the log when nobody else is there who writes; otherwise only sees to it that what this
  /// process wrote is durable.
  func leaveForGood() async throws(StoreError) {
    guard let link = engine?.link else { return }
    do throws(StoreError) { guard try await acquireWriterLease() else { return } } catch {
      // Somebody keeps the lock: what this process wrote becomes durable without it.
      try await pipeline.waitUntilAllDurable()
      throw error
    }
    var isLast = false
    var failure: StoreError?
    do throws(StoreError) {
      isLast = try link.becomeOnly()
      if isLast { try await sealForGood() }
    } catch {
      failure = error
    }
    // Also the last one: who comes while it leaves joins it.
    do throws(StoreError) { try link.joinOthers() } catch { failure = failure ?? error }
    releaseWriterLease()
    if let failure { throw failure }
    if !isLast { try await pipeline.waitUntilAllDurable() }
  }
}
