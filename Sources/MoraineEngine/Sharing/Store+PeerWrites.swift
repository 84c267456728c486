import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  nonisolated var isShared: Bool { opener.isShared }

  /// Applies the records that other processes have written. When there are none, this is one load
  /// from memory; but a reader that opened the store while no process shared it asks the system at
  /// each call. Reads that take longer run on a thread of the pool.
  ///
  /// - Throws: `.corrupted`, `.io`, `.locked`.
  @inline(__always)
  func catchUp() async throws(StoreError) {
    guard isShared else { return }
    try await catchUpWithOthers()
  }

  /// Records the version up to which this process has followed the others.
  func recordFollowedVersion(_ version: UInt64) {
    peers.recordFollowing(version)
    observers.others.followed(version)
  }

  /// Applies the records that other processes have written.
  package func applyPeerWrites() async throws(StoreError) { try await checkOpen() }

  static let briefPatienceNanoseconds: UInt64 = 100_000_000

  private func catchUpWithOthers() async throws(StoreError) {
    while true {
      if peers.isTakingOver {
        await peers.waitForTakeover()
        continue
      }
      // The holder of the writer's lock knows all records.
      guard !peers.hasLease, !isSuspended, !isClosed else { return }
      if engine == nil { return try await joinForReading() }
      switch try followAtOnce() {
      case .followed: return
      case .incomplete where await isPublishedSoon(): continue
      case .incomplete:
        // The writer was killed or stopped during its publication.
        guard try await reread(mayWait: true) == .again else { return }
      case .replaced:
        // The state that this call has read is new enough, whatever was published since.
        guard try await reread() == .again else { return }
      }
    }
  }

  /// Waits some milliseconds for a writer that is in the middle of a publication. Returns false if
  /// the publication has not ended by then.
  private func isPublishedSoon() async -> Bool {
    for _ in 0..<20 {
      guard let page = engine?.log.link?.page, page.snapshot() == nil else { return true }
      await ThreadPool.current.sleep(nanoseconds: 500_000)
    }
    return false
  }

  /// Opens a store that another process has created since.
  ///
  /// A reader does not wait for long: until the creating process has acknowledged a write, there is
  /// nothing to read.
  private func joinForReading() async throws(StoreError) {
    do throws(StoreError) {
      try await joinOthers(patienceNanoseconds: Self.briefPatienceNanoseconds)
    } catch {
      guard error.code == .locked, error.file == FileName.writerLock, try isBeingCreated()
      else { throw error }
    }
  }

  /// Opens a store that another process has created since, without blocking this thread.
  ///
  /// One task at a time opens the store, and no writer runs beside it: the opening thread waits for
  /// the writer's lock, and a writer of this process that holds it would wait for that thread.
  func joinOthers(
    patienceNanoseconds: UInt64 = SharedLink.patienceNanoseconds
  ) async throws(StoreError) {
    guard isShared, engine == nil else { return }
    await writing.roomGate.waitUntilFree()
    guard engine == nil, !isSuspended, !isClosed else { return }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    var opener = opener
    opener.patienceNanoseconds = patienceNanoseconds
    let box = try await opener.openWithoutBlocking(creating: false)
    guard engine == nil, !isSuspended, !isClosed else {
      // The opening has begun to watch its files, and its state is not used.
      if engine == nil { pipeline.endWatch() }
      return
    }
    engine = box.take()
    guard engine != nil else { return }
    begunFollowing()
    sendOpened()
  }

  /// Returns whether another process is creating the store. Until that process has made the page,
  /// it has acknowledged no write, so there is nothing to read.
  private func isBeingCreated() throws(StoreError) -> Bool {
    let directory = try storing { () throws(StorageError) in
      try opener.storage.openDirectory(opener.path)
    }
    guard let directory, let link = try SharedLink(reading: directory) else { return true }
    return !link.page.isMade
  }

  /// Applies what other processes have published, without waiting.
  ///
  /// - Parameter mayRepeat: whether a call that finds a file missing during a compaction of this
  ///   process may follow once more.
  private func followAtOnce(mayRepeat: Bool = true) throws(StoreError) -> PeerFollowing {
    assert(!peers.hasLease, "a process that appends follows other processes")
    guard let link = engine!.log.link else { return try hasBeenShared() ? .replaced : .followed }
    if engine!.isFollowedInPart { return .replaced }
    guard link.page.load(.version) != peers.seenVersion else { return .followed }
    guard let news = link.page.snapshot() else { return .incomplete }
    // The page gets a new nonce after all writers have left. So this process only reads.
    guard news.nonce == peers.nonce else { return .replaced }
    do throws(StoreError) {
      let result = try engine!.follow(news, in: link.page)
      guard result == .followed else { return result }
    } catch {
      // Another process may have rotated or compacted the log while it was read.
      if error.code == .corrupted, !peers.keepsSlots { return .replaced }
      // No other process compacts now. But one that finds a writer dead removes a segment without
      // records, after this call has read the manifest that lists it.
      guard error.code == .corrupted, mayRepeat, !engine!.isFollowedInPart else {
        wakeForChange()
        throw error
      }
      return try followAtOnce(mayRepeat: false)
    }
    peers.recordNewState()
    recordFollowedVersion(news.version)
    scheduleReaping()
    wakeForChange()
    return .followed
  }

  /// Returns whether a store has a page now that this reader opened before any process shared it.
  private func hasBeenShared() throws(StoreError) -> Bool {
    guard opener.configuration.isReadOnly else { return false }
    return try SharedLink(reading: engine!.directoryHandle())?.page.isMade ?? false
  }

  /// Applies what other processes have published, for a writer of this process that holds the lock.
  /// Readers wait until this has ended.
  func followAsWriter() async throws(StoreError) {
    if case .followed = try followAtOnce() { return }
    try await rereadAsWriter()
  }

  /// Reads the whole store again on a thread of the pool, for a writer of this process that holds
  /// the lock.
  ///
  /// - Parameter published: how far the log reaches; nil for the publication in the page.
  func rereadAsWriter(to published: SharedPage.Publication? = nil) async throws(StoreError) {
    precondition(peers.isTakingOver, "a writer rereads the store without the lock")
    guard let work = try rereading(to: published) else { return }
    let known = peers.stateCount
    // Use no `lasting` thread: openings of this process may wait there for the writer's lock.
    let state = try await SerialQueue(.brief).run { () throws(StoreError) in try work.run() }
    precondition(peers.stateCount == known, "a reader replaced the state of a writer")
    if let state { install(state) }
  }

  /// Result of reading the store again.
  enum Rereading {
    case installed
    /// Another reader has read the store, or a writer of this process came first: try again.
    case again
    /// Another process has the store open exclusively now. The state of this process stays as it
    /// is.
    case refused
  }

  /// Reads the whole store again for readers, one read at a time.
  ///
  /// - Parameter mayWait: whether the read may have to wait for another process.
  func reread(mayWait: Bool = false) async throws(StoreError) -> Rereading {
    guard !peers.isRereading else {
      try await peers.waitForReread()
      return .again
    }
    guard let work = try rereading(to: nil) else { return .refused }
    let known = peers.stateCount
    let state = try await readOnThread(mayWait: mayWait) { () throws(StoreError) in
      try work.run()
    }
    guard peers.mayInstall(readSince: known), engine != nil else { return .again }
    guard let state else { return .refused }
    install(state)
    return .installed
  }

  /// Reads a state on a thread of the pool, for a reader. Leaving the directory waits for the end
  /// of the read, because the state refers to locks.
  ///
  /// - Parameter mayWait: whether the read may have to wait for another process. A store that was
  ///   opened for reading only may always have to wait for a lock.
  func readOnThread(
    mayWait: Bool = false, _ body: @escaping @Sendable () throws(StoreError) -> EngineBox?
  ) async throws(StoreError) -> EngineBox? {
    let queue = SerialQueue(mayWait || opener.configuration.isReadOnly ? .lasting : .brief)
    peers.beginRereading(on: queue)
    defer { endRereading() }
    do throws(StoreError) { return try await queue.run(body) } catch {
      if error.code == .locked { peers.recordRereadFailure(error) }
      // If the store was closed or suspended since, that is the error to throw.
      try checkUsable()
      throw error
    }
  }

  private func endRereading() {
    peers.endRereading()
    if engine == nil {
      // The store was closed or suspended since, and the read began to watch its files again.
      pipeline.endWatch()
    }
    peers.wakeWaitingReaders()
  }

  func rereading(to published: SharedPage.Publication?) throws(StoreError) -> FollowedStore? {
    guard engine != nil else { return nil }
    // A state that a forked child reads would be its own: writes would no longer be refused.
    try engine!.checkProcess()
    guard !peers.keepsSlots else {
      // Nothing was removed: a replay failed, and the store is read again after the compaction.
      if engine!.isFollowedInPart, let failure = engine!.replayFailure { throw failure }
      throw StoreError(
        .corrupted,
        "segments were removed while this process had locked compaction; reopen the store",
        file: Manifest.fileName)
    }
    return FollowedStore(
      opener: opener, directory: engine!.directoryHandle(), lock: engine!.lockHandle(),
      link: engine!.log.link, isKnownInPart: engine!.isFollowedInPart, published: published)
  }

  /// Replaces the known state by a state that was read again.
  func install(_ box: EngineBox) {
    precondition(!peers.hasLease, "a state is replaced while its log is appended to")
    guard var state = box.take() else { return }
    let isWhole = !engine!.isFollowedInPart
    state.log.continueCounts(of: engine!.log, isWhole: isWhole)
    state.report = engine!.report
    engine = consume state
    begunFollowing()
    engine!.recordForeignCommits()
  }

  /// Updates the records of this process about the page, after a new state was installed.
  func begunFollowing() {
    peers.recordNewState()
    if engine != nil {
      engine!.reportPeerSeals()
      // Relaxed: readers need no order. A feed that begins now may begin at this operation or at a
      // later one.
      observers.openedSequence.store(engine!.log.lastSequence, ordering: .relaxed)
    }
    scheduleReaping()
    refreshReaders()
    readers.waiters.wakeAll()
    guard let link = engine?.log.link else { return }
    let (page, followed) = (link.page, engine!.followed)
    peers.recordNewState(nonce: followed.nonce, version: followed.version)
    observers.others.followed(followed.version)
    observers.others.follow(link)
    pipeline.sharedPage.withLock { $0 = page }
    observers.pins.share(page)
  }
}

/// A job that reads a store again as other processes have published it.
struct FollowedStore: Sendable {
  let opener: Opener
  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  /// Nil for a reader that opened the store before any process shared it.
  let link: SharedLink?
  let isKnownInPart: Bool
  let published: SharedPage.Publication?

  /// Reads the store. Blocks the calling thread.
  ///
  /// - Returns: nil when no process shares the store, or one has it open exclusively.
  func run() throws(StoreError) -> EngineBox? {
    guard let link = try linkInUse() else { return nil }
    var held: (any StorageFile)?
    if opener.configuration.isReadOnly {
      do throws(StoreError) { held = try opener.takeLock(directory) } catch {
        // Another process has the store open exclusively now.
        guard error.code == .locked, !isKnownInPart else { throw error }
        return nil
      }
    }
    defer { held?.unlock() }
    let began = SystemClock.monotonicNanoseconds()
    if opener.configuration.isReadOnly, let last = try outdatedPublication(link) {
      var state = try opener.openForReading(directory, nil, began)
      if state.log.link == nil {
        // The next writer that shares the store makes the page again, and this reader notices that.
        state.log.link = link
        state.followed = (last.nonce, last.version)
      }
      return EngineBox(consume state)
    }
    return EngineBox(try opener.follow(directory, lock, link, began, to: published))
  }

  /// Returns the last publication in the page when it no longer says how far the log reaches, for a
  /// reader that holds `LOCK`; otherwise nil. A process that had the store exclusively since then
  /// has left the page as it was, and each of its records lies in a segment that a newer manifest
  /// lists.
  private func outdatedPublication(
    _ link: SharedLink
  ) throws(StoreError) -> SharedPage.Publication? {
    let began = SystemClock.monotonicNanoseconds()
    while true {
      // Without a valid publication, the log is read to its end.
      guard let last = link.page.snapshot(), let manifest = try ManifestFile.readPresent(directory),
        manifest.generation != last.generation
      else { return nil }
      do throws(StoreError) {
        // A living writer may not have published the manifest yet.
        let isInUse = try link.isInUseNow()
        return isInUse ? nil : last
      } catch {
        // Another reader has the writer's lock while it reads the whole log.
        guard error.code == .locked,
          SystemClock.monotonicNanoseconds() &- began < opener.patienceNanoseconds
        else { throw error }
      }
    }
  }

  private func linkInUse() throws(StoreError) -> SharedLink? {
    if let link { return link }
    guard let link = try SharedLink(reading: directory), link.page.isMade, try link.isInUseNow()
    else { return nil }
    try link.checkLockFiles()
    return link
  }
}

/// Repetition of reads whose files are gone. Without mappings, a file is opened when it is read.
/// Another process may have compacted and removed the file since this process last applied changes.
extension Store {
  /// Number of times that a read is repeated because its files were compacted and removed.
  static let rereadLimit = 8

  /// Runs a read, and repeats it when other segments have replaced the segments that this process
  /// knows.
  ///
  /// - Returns: the result of the read; nil when the store does not exist yet.
  @inline(__always)
  func reading<Value>(
    _ body: (inout EngineState) throws(StoreError) -> Value
  ) async throws(StoreError) -> Value? {
    guard engine != nil else { return nil }
    do throws(StoreError) { return try body(&engine!) } catch {
      return try await readAgain(error, body)
    }
  }

  private func readAgain<Value>(
    _ cause: StoreError, _ body: (inout EngineState) throws(StoreError) -> Value
  ) async throws(StoreError) -> Value? {
    var cause = cause
    for _ in 0..<Self.rereadLimit {
      guard try await wasReplaced(cause) else { throw cause }
      try await checkOpen()
      guard engine != nil else { return nil }
      do throws(StoreError) { return try body(&engine!) } catch { cause = error }
    }
    throw cause
  }

  /// Returns whether a read failed because other files have replaced the files that it read. If so,
  /// this process knows the new files now.
  func wasReplaced(_ error: StoreError) async throws(StoreError) -> Bool {
    guard error.code == .corrupted else { return false }
    return try await followReplacement()
  }

  /// Reads the whole store again when another process has published a manifest that this process
  /// does not know.
  ///
  /// - Returns: false when nothing has changed. Then a file that is missing stays missing.
  private func followReplacement() async throws(StoreError) -> Bool {
    guard isShared || opener.configuration.isReadOnly, engine != nil, !peers.hasLease,
      !peers.keepsSlots
    else { return false }
    try engine!.checkProcess()
    if peers.isTakingOver {
      // A writer of this process is applying all changes.
      await peers.waitForTakeover()
      return true
    }
    let directory = engine!.directoryHandle()
    // The name is looked up, because a list of the directory may lack a manifest that another
    // process is replacing.
    let manifest = try ManifestFile.readPresent(directory)
    guard let manifest, manifest.generation > engine!.log.manifest.generation else { return false }
    guard engine!.log.link == nil, !peers.isRereading else {
      return try await reread() != .refused
    }
    // The reader opened the store before any process shared it.
    var opener = opener
    opener.patienceNanoseconds = Self.briefPatienceNanoseconds
    let known = peers.stateCount
    let box = try await readOnThread { [opener] () throws(StoreError) in
      EngineBox(try opener.open(creating: false))
    }
    guard peers.stateCount == known, engine != nil else { return true }
    precondition(!peers.hasLease, "a state is replaced while its log is appended to")
    guard let state = box?.take() else { return false }
    engine = consume state
    begunFollowing()
    return true
  }

  /// Opens the files that a walk is about to read, as many as are kept open. These files can be
  /// read even after other processes have removed them.
  func holdFiles() async throws(StoreError) {
    try await followBeforeWalk()
    _ = try await reading { (engine) throws(StoreError) in try engine.log.table.holdFiles() }
  }

  /// Follows a newer manifest before a walk over more files than are kept open, because the other
  /// files may have been removed. No writer wakes such a reader: no other event shows it the new
  /// manifest.
  private func followBeforeWalk() async throws(StoreError) {
    guard engine != nil, engine!.log.link == nil, opener.configuration.isReadOnly,
      engine!.log.table.hasMoreFilesThanAreKept
    else { return }
    do throws(StoreError) { _ = try await followReplacement() } catch {
      // A writer has the store open exclusively. The walk reads the files that are held open.
      guard error.code == .locked else { throw error }
    }
  }
}

extension SegmentTable {
  /// Whether some of the files that are read without a mapping are closed after each use.
  fileprivate var hasMoreFilesThanAreKept: Bool {
    readingOrder.count > FileCache.limit && readingOrder.contains { self[$0].base == nil }
  }

  /// Opens the files that are read without a mapping, as many as are kept open.
  func holdFiles() throws(StoreError) {
    for slot in readingOrder.prefix(FileCache.limit) where self[slot].base == nil {
      _ = try files.file(for: slot, named: fileName(slot))
    }
  }
}
