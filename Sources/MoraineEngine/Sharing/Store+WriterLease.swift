import MoraineFormat
import MoraineStorage
import SystemPackage

/// Appending in a shared store: one process at a time holds the writer's lock.
extension Store {
  /// Takes the writer's lock of a shared store, and applies all records that other processes have
  /// written. Writers of this process that come while the lock is held share it.
  ///
  /// - Returns: whether the caller must call ``releaseWriterLease()``; false in a store that is not
  ///   shared.
  /// - Throws: `.locked`, `.poisoned`, `.storeReplaced`, `.corrupted`, `.io`, `.usedAfterFork`; the
  ///   lock is free then.
  func acquireWriterLease() async throws(StoreError) -> Bool {
    guard isShared, !opener.configuration.isReadOnly, engine?.log.link != nil else { return false }
    // In a forked child, the kernel's locks and the words of the page belong to the parent.
    try engine!.checkProcess()
    try throwPoison()
    await peers.waitForEntry()
    guard let link = engine?.log.link else {
      // The store was closed or suspended during the wait.
      try checkUsable()
      return false
    }
    if peers.joinLease() { return true }
    peers.beginEntry()
    defer { peers.endEntry() }
    let hasWriter = try await link.waitForWriterWithoutBlocking()
    // A store whose files were replaced does not wait for this task when it is closed, and no store
    // waits again when it gives its state up.
    guard hasWriter, engine?.log.link === link, !peers.refusesTakeovers else {
      link.freeWriter()
      try checkUsable()
      throw .ofSuspendedStore
    }
    peers.beginTakeover()
    do throws(StoreError) {
      try await takeOver(link)
      // The takeover may have taken seconds. A sync of another process that failed in that time is
      // not reported for a file that was opened later.
      try throwPoison(on: link.page)
    } catch {
      link.freeWriter()
      throw error
    }
    peers.beginLease()
    return true
  }

  /// Applies all records that other processes have written, and updates the commit pipeline.
  func catchUpAsWriter() async throws(StoreError) {
    if try await acquireWriterLease() { releaseWriterLease() }
  }

  /// Throws if this process has stopped writing for good.
  func throwPoison() throws(StoreError) {
    if pipeline.hasPoison, let poison = pipeline.poison { throw poison }
  }

  /// Throws if this process or another one has stopped writing for good.
  private func throwPoison(on page: SharedPage) throws(StoreError) {
    // The poison may have come during a wait. Where the store was replaced, the page belongs to
    // other processes, and this one writes nothing to it.
    try throwPoison()
    if page.load(.poison) != 0 {
      pipeline.poison(.failedSyncOfAnotherProcess(file: opener.path.string))
      if let poison = pipeline.poison { throw poison }
    }
  }

  /// Applies the records of other processes, and prepares the log for appending.
  private func takeOver(_ link: SharedLink) async throws(StoreError) {
    let page = link.page
    try throwPoison(on: page)
    if page.load(.leaseHolder) != 0 { return try await takeOverFromDead(link) }
    if peers.isLastPublisher(page.load(.version)), engine!.log.active != nil {
      page.store(UInt64(CurrentProcess.id), .leaseHolder)
      return
    }
    guard let snapshot = page.snapshot() else { return try await takeOverFromDead(link) }
    try await followAsWriter()
    if engine!.hasOpenTail(), snapshot.tailLimit == 0 {
      // The writer of the tail could not end it, for example because the disk was full.
      return try await takeOverFromDead(link)
    }
    try engine!.adoptTail(snapshot)
    page.store(UInt64(CurrentProcess.id), .leaseHolder)
  }

  /// Ends the segment in which a writer died: no process appends after bytes that the dead writer
  /// may have left.
  private func takeOverFromDead(_ link: SharedLink) async throws(StoreError) {
    assert(peers.isTakingOver, "a task recovers the log without the lock")
    link.page.store(UInt64(CurrentProcess.id), .leaseHolder)
    let directory = engine!.directoryHandle()
    try await synchronizeNames(of: directory)
    // The log contains the records that the dead writer was publishing. The state of this process
    // may be older than the state that others have seen, and must not be published before this
    // process knows the rest.
    defer {
      // Also after an error: records may have been replayed.
      if engine != nil { engine!.recordForeignCommits() }
      refreshStaleReaders()
    }
    let tail = try await readLogOfDead(link.page)
    // Only after the tail was replayed: its records have lower numbers, and numbers must rise.
    engine!.log.lastSequence = max(
      engine!.log.lastSequence, link.page.lastUsedSequence,
      engine!.log.manifest.lastSequence.rawValue)
    guard let segment = tail else { return }
    if !segment.isEmpty { try await makeDurable(segment, directory) }
    engine!.sealRecoveredTail(segment)
    do throws(StoreError) {
      try await publishManifest()
    } catch {
      guard error.code == .noSpace, try await releaseReserve() else { throw error }
      try await publishManifest()
    }
    pipeline.beginSegment(file: nil, sequence: engine!.log.lastSequence, offset: 0)
    guard segment.isEmpty else { return }
    try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try directory.remove(segment.name) }
    }
  }

  /// Reads the log to its end.
  ///
  /// - Returns: the segment that the dead writer has not ended; nil when there is none.
  private func readLogOfDead(_ page: SharedPage) async throws(StoreError) -> OpenSegment? {
    // The manifest may have been replaced, and its generation not published. A replay that failed
    // may have ended inside a batch.
    var isKnown = !engine!.isFollowedInPart
    var hasBegun = false
    do throws(StoreError) {
      if isKnown { isKnown = try engine!.followManifest(SharedPage.Publication(), &hasBegun) }
      // Readers see the new state at once. Without the last records of the log it would have holes:
      // a compaction has removed the older records that these hide.
      if !isKnown { try await rereadAsWriter(to: page.wholeLog) }
      return try engine!.recoverTail()
    } catch {
      // The state may have such holes now. It is read again before anything is read from it, and
      // readers keep the state that they have. But what is damaged stays refused: a reading of the
      // whole log does not know how long the log was.
      if isKnown, hasBegun, engine != nil, error.code != .corrupted {
        engine!.isFollowedInPart = true
        engine!.replayFailure = error
      }
      throw error
    }
  }

  /// Makes the names in the directory durable. The dead writer may have renamed a manifest without
  /// making that durable: before it is durable, nothing is created, removed or trusted.
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
    let (before, reserve) = (engine!.report, engine!.log.reserve)
    let after = try await pipeline.run { () throws(StoreError) in
      var (report, reserve) = (before, reserve)
      let isNew = try segment.makeDurable(directory, &reserve, &report)
      return (report: report, reserve: reserve, isNew: isNew)
    }
    engine!.report = after.report
    engine!.log.reserve = after.reserve
    if after.isNew { try engine!.reopenFile(segment.slot, length: segment.end) }
  }

  /// Publishes what was appended, even while other writers of this process hold the lock too: a
  /// record may be acknowledged before the last of them leaves, and a process that only reads must
  /// find that record.
  private func publishAppends(_ page: SharedPage) {
    var snapshot = engine!.sharedSnapshot()
    if writing.manifestGate.isHeld, peers.hasLease {
      // The manifest that lists these segments may not be in place yet. Publish only if the tail
      // is the published one.
      guard let before = page.snapshot(), before.tailSegment == snapshot.tailSegment,
        before.tailLimit == snapshot.tailLimit
      else { return }
      snapshot.generation = before.generation
    }
    page.publish(snapshot)
    if !peers.hasLease { page.store(0, .leaseHolder) }
    let version = page.load(.version)
    peers.recordPublication(version)
    observers.others.followed(version)
  }

  /// Publishes what was appended. Releases the lock when the last writer of this process leaves, so
  /// that other processes can write.
  func releaseWriterLease() {
    let isLast = peers.leaveLease()
    guard let link = engine?.log.link else { return }
    let page = link.page
    if let poison = pipeline.hasPoison ? pipeline.poison : nil {
      // Where this store was replaced, the files of the others are sound: they go on. The page
      // still names this process as the holder, so the next writer reads the log as after a death.
      if poison.code != .storeReplaced { page.store(1, .poison) }
    } else {
      publishAppends(page)
    }
    if isLast { link.freeWriter() }
    do throws(StoreError) {
      try link.ring()
    } catch {
      // Without the wake-up, the other processes look at the page once a second.
    }
  }
}

extension StoreError {
  /// The cause for which this process stops writing after the sync of another one has failed.
  static func failedSyncOfAnotherProcess(file: String) -> StoreError {
    StoreError(.io, "a sync in another process failed", file: file)
  }
}

/// The lock for rewriting segments, which one process at a time holds, and the end of the log,
/// which the last process writes.
extension Store {
  /// Takes the compactor's lock of a shared store, if it is free.
  ///
  /// - Returns: false while another process rewrites segments; always true in a store that is not
  ///   shared.
  func takeCompactor() throws(StoreError) -> Bool {
    guard isShared, let link = engine?.log.link else { return true }
    try engine!.checkProcess()
    let hasCompactor = try link.tryCompactor()
    peers.recordCompactor(hasCompactor)
    return hasCompactor
  }

  /// Applies what other processes have rewritten. From here on no other process rewrites segments.
  func beginRewriting() async throws(StoreError) {
    try await catchUpAsWriter()
    peers.beginRewriting()
  }

  func freeCompactor() {
    if peers.endRewriting() { engine?.log.link?.freeCompactor() }
  }

  /// Waits five milliseconds while another process compacts.
  func pause() async throws(StoreError) {
    do { try await Task.sleep(for: .milliseconds(5)) } catch {
      throw StoreError(.cancelled, "the task was cancelled while another process was compacting")
    }
    try checkUsable()
  }

  /// Ends the log if no other process has the store open for writing. Otherwise only makes the
  /// writes of this process durable.
  func leaveForGood() async throws(StoreError) {
    guard let link = engine?.log.link else { return }
    do throws(StoreError) { guard try await acquireWriterLease() else { return } } catch {
      // Another process keeps the lock. The writes of this process become durable without it.
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
    // The last process does this too: a process that opens the store now joins it.
    do throws(StoreError) { try link.joinOthers() } catch { failure = failure ?? error }
    releaseWriterLease()
    if let failure { throw failure }
    if !isLast { try await pipeline.waitUntilAllDurable() }
  }
}
