import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  nonisolated var isShared: Bool { opener.isShared }

  /// Takes in what other processes have written. Without news it is one load from memory; what
  /// takes longer is read on a thread of the pool.
  ///
  /// - Throws: `.corrupted`, `.io`, `.locked`.
  @inline(__always)
  func catchUp() async throws(StoreError) {
    guard isShared else { return }
    try await catchUpWithOthers()
  }

  /// The same for what cannot throw: it answers what is known then, and the next call that can
  /// throws.
  func tryToCatchUp() async {
    do throws(StoreError) { try await catchUp() } catch {}
  }

  /// Notes how far this process has followed the others.
  func see(_ version: UInt64) {
    sharing.seenVersion = version
    observers.others.followed(version)
  }

  /// Takes in what other processes have written.
  package func applyPeerWrites() async throws(StoreError) { try await checkOpen() }

  static let briefPatienceNanoseconds: UInt64 = 100_000_000

  private func catchUpWithOthers() async throws(StoreError) {
    while true {
      if sharing.isTakingOver {
        await sharing.entryGate.waitForWakeUp()
        continue
      }
      // Whoever has the writer's lock knows all.
      guard sharing.leaseDepth == 0, !isSuspended, !isClosed else { return }
      if engine == nil { return try await joinForReading() }
      switch try followAtOnce() {
      case .followed: return
      case .incomplete where await isPublishedSoon(): continue
      case .incomplete:
        // The writer was killed there, or is stopped.
        guard try await reread(mayWait: true) == .again else { return }
      case .replaced:
        // What this call has read itself is new enough, whatever is published since.
        guard try await reread() == .again else { return }
      }
    }
  }

  /// Waits some milliseconds for a writer that is in the middle of a publication.
  private func isPublishedSoon() async -> Bool {
    for _ in 0..<20 {
      guard let page = engine?.link?.page, page.snapshot() == nil else { return true }
      await ThreadPool.current.sleep(nanoseconds: 500_000)
    }
    return false
  }

  /// Opens a store that another process has made since.
  ///
  /// A reader does not wait for long: until its maker has acknowledged something, there is nothing
  /// to be read.
  private func joinForReading() async throws(StoreError) {
    do throws(StoreError) {
      try await joinOthers(patienceNanoseconds: Self.briefPatienceNanoseconds)
    } catch {
      guard error.code == .locked, error.file == FileName.writerLock, try isBeingCreated()
      else { throw error }
    }
  }

  /// Opens a store that another process has made since, without keeping this thread.
  ///
  /// One at a time, and no writer beside it: the thread that opens waits for the writer's lock, and
  /// whoever in this process has that waits for the thread.
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
      // Opening has begun to watch its files, and nobody will have them.
      if engine == nil { pipeline.endWatch() }
      return
    }
    engine = box.take()
    guard engine != nil else { return }
    begunFollowing()
    tellOpened()
  }

  /// Whether another process is creating the store: until it has made the page, it has acknowledged
  /// nothing, so there is nothing to be read.
  private func isBeingCreated() throws(StoreError) -> Bool {
    let directory = try storing { () throws(StorageError) in
      try opener.storage.openDirectory(opener.path)
    }
    guard let directory, let link = try SharedLink(reading: directory) else { return true }
    return !link.page.isMade
  }

  /// What came of following the others without waiting.
  private enum Following {
    case followed
    /// The whole store must be read again.
    case replaced
    /// The page's words do not belong together: a writer is in the middle of a publication, or died
    /// there.
    case incomplete
  }

  /// Takes in what others have published, without waiting for anything.
  private func followAtOnce() throws(StoreError) -> Following {
    guard let link = engine!.link else { return try hasBeenShared() ? .replaced : .followed }
    if engine!.isFollowedInPart { return .replaced }
    guard link.page.load(.version) != sharing.seenVersion else { return .followed }
    guard let news = link.page.snapshot() else { return .incomplete }
    defer { wakeForChange() }
    // The page begins a new life when all who wrote have gone: then this process only reads.
    guard news.nonce == sharing.nonce else { return .replaced }
    do throws(StoreError) {
      guard try engine!.follow(news) else { return .replaced }
    } catch {
      // Another process may have rotated or compacted it while it was read.
      guard error.code == .corrupted, !sharing.keepsSlots else { throw error }
      return .replaced
    }
    sharing.stateCount += 1
    see(news.version)
    return .followed
  }

  /// Whether the store that this reader opened before anybody shared it has a page now.
  private func hasBeenShared() throws(StoreError) -> Bool {
    guard opener.configuration.isReadOnly else { return false }
    return try SharedLink(reading: engine!.directoryHandle())?.page.isMade ?? false
  }

  /// Takes in what others have published, for a writer of this process that has the lock: readers
  /// wait until it has ended.
  func followAsWriter() async throws(StoreError) {
    if case .followed = try followAtOnce() { return }
    try await rereadAsWriter()
  }

  /// Reads the whole store again on a thread of the pool, for a writer of this process that has the
  /// lock.
  ///
  /// - Parameter published: how far the log reaches; nil for what the page says.
  func rereadAsWriter(to published: SharedPage.Publication? = nil) async throws(StoreError) {
    precondition(sharing.isTakingOver, "a writer reads the store again without the lock")
    guard let work = try rereading(to: published) else { return }
    let known = sharing.stateCount
    // Not on a thread where an opening of this process may be waiting for the writer's lock.
    let state = try await SerialQueue(.brief).run { () throws(StoreError) in try work.run() }
    precondition(sharing.stateCount == known, "a reader replaced the state of a writer")
    if let state { install(state) }
  }

  /// What came of reading the store again.
  enum Rereading {
    case installed
    /// Another reader has read it, or a writer of this process came first.
    case again
    /// Another process has the store for itself now: what this one knows stays as it is.
    case refused
  }

  /// The same for readers, one at a time.
  ///
  /// - Parameter mayWait: whether another process may have to be waited for.
  func reread(mayWait: Bool = false) async throws(StoreError) -> Rereading {
    guard !sharing.isRereading else {
      await sharing.rereadEnd.waitForWakeUp()
      // The one that was waited for has had the patience for all.
      if let failure = sharing.rereadFailure { throw failure }
      return .again
    }
    guard let work = try rereading(to: nil) else { return .refused }
    let known = sharing.stateCount
    let state = try await readOnThread(mayWait: mayWait) { () throws(StoreError) in
      try work.run()
    }
    // A writer of this process that came first has taken in more; its segments keep their slots.
    guard sharing.stateCount == known, !sharing.isTakingOver, sharing.leaseDepth == 0,
      !sharing.keepsSlots, engine != nil
    else { return .again }
    guard let state else { return .refused }
    install(state)
    return .installed
  }

  /// Reads a state on a thread of the pool, for a reader. Leaving the directory waits for the end
  /// of that: the state refers to locks.
  ///
  /// - Parameter mayWait: whether another process may have to be waited for. A reader that changes
  ///   nothing may always have to wait for a lock.
  func readOnThread(
    mayWait: Bool = false, _ body: @escaping @Sendable () throws(StoreError) -> EngineBox?
  ) async throws(StoreError) -> EngineBox? {
    let queue = SerialQueue(mayWait || opener.configuration.isReadOnly ? .lasting : .brief)
    sharing.rereadQueue = queue
    sharing.rereadFailure = nil
    defer { endRereading() }
    do throws(StoreError) { return try await queue.run(body) } catch {
      if error.code == .locked { sharing.rereadFailure = error }
      // Where it was closed or suspended since, that is why.
      try checkUsable()
      throw error
    }
  }

  private func endRereading() {
    sharing.rereadQueue = nil
    if engine == nil {
      // It was closed or suspended since; reading began to watch its files again.
      pipeline.endWatch()
    }
    sharing.rereadEnd.wakeAll()
  }

  func rereading(to published: SharedPage.Publication?) throws(StoreError) -> FollowedStore? {
    guard engine != nil else { return nil }
    guard !sharing.keepsSlots else {
      throw StoreError(
        .corrupted, "segments vanished while this process alone may rewrite them; reopen the store",
        file: Manifest.fileName)
    }
    return FollowedStore(
      opener: opener, directory: engine!.directoryHandle(), lock: engine!.lockHandle(),
      link: engine!.link, isKnownInPart: engine!.isFollowedInPart, published: published)
  }

  /// Puts a state that was read again in the place of the one that was known.
  func install(_ box: EngineBox) {
    guard var state = box.take() else { return }
    state.appendedBytes = engine!.appendedBytes
    state.report = engine!.report
    state.lastSequence = max(state.lastSequence, engine!.lastSequence)
    engine = consume state
    begunFollowing()
    engine!.keyspaces.recordCommitToAll()
  }

  /// Remembers what a state that was just read is about.
  func begunFollowing() {
    sharing.stateCount += 1
    if engine != nil {
      engine!.tellOfOthers()
      // Readers need no order: a feed that begins now may begin here or at a later operation.
      observers.openedSequence.store(engine!.lastSequence, ordering: .relaxed)
    }
    guard let page = engine?.link?.page else { return }
    sharing.nonce = engine!.followed.nonce
    see(engine!.followed.version)
    sharing.adoptedVersion = 0
    observers.others.follow(page)
    pipeline.sharedPage.withLock { $0 = page }
    observers.pins.share(page)
  }
}

/// Reads a store again as others have published it.
struct FollowedStore: Sendable {
  let opener: Opener
  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  /// Nil for a reader that came before anybody shared the store.
  let link: SharedLink?
  let isKnownInPart: Bool
  let published: SharedPage.Publication?

  /// Blocks the calling thread.
  ///
  /// - Returns: nil when there is nothing to be taken in.
  func run() throws(StoreError) -> EngineBox? {
    guard let link = try linkInUse() else { return nil }
    var held: (any StorageFile)?
    if opener.configuration.isReadOnly {
      do throws(StoreError) { held = try opener.takeLock(directory) } catch {
        // A process has the store for itself now.
        guard error.code == .locked, !isKnownInPart else { throw error }
        return nil
      }
    }
    defer { held?.unlock() }
    return EngineBox(
      try opener.follow(directory, lock, link, SystemClock.monotonicNanoseconds(), to: published))
  }

  private func linkInUse() throws(StoreError) -> SharedLink? {
    if let link { return link }
    guard let link = try SharedLink(reading: directory), link.page.isMade, try link.isInUseNow()
    else { return nil }
    return link
  }
}
