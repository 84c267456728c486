import MoraineFormat
import MoraineStorage
import Synchronization

/// What a shared store's actor knows of the others.
struct SharingState {
  /// How many of this store's writers and compactions have the writer's lock together; 0 when it is
  /// free for others.
  var burstDepth = 0
  /// True while the lock is being waited for.
  var isEntering = false
  var gate: [UnsafeContinuation<Void, Never>] = []
  /// Of the page, when it was looked at last.
  var seenVersion: UInt64 = 0
  var nonce: UInt64 = 0
  /// Wakes this process when others have written.
  var watch: OthersWatch?
  /// Whether a look at a store that is not there yet is due.
  var looksLater = false
  /// Whether there was a store when it was suspended.
  var wasThere = false
  /// Of the page, when this process last had the lock: what is appended to is known as long as it
  /// stays so.
  var adoptedVersion: UInt64 = 0
  /// Whether this process alone may rewrite segments.
  var hasCompactor = false
  /// Whether segments are being rewritten: they keep their slots.
  var keepsSlots = false
  /// How many walks over the log lend entries to a caller's closure. A walk names segments by their
  /// slots, so that calls of the closure see the store as the walk does: nothing that other
  /// processes write is applied before the walk ends.
  var walkDepth = 0
}

extension Store {
  nonisolated var isShared: Bool { opener.isShared }

  /// Takes in what other processes have written. Without news it is one load from memory.
  ///
  /// - Throws: `.corrupted`, `.io`.
  @inline(__always)
  func catchUp() throws(StoreError) {
    guard isShared, sharing.burstDepth == 0, sharing.walkDepth == 0, !isSuspended, !isClosed
    else { return }
    try catchUpWithOthers()
  }

  /// Notes how far this process has followed the others.
  func see(_ version: UInt64) {
    sharing.seenVersion = version
    observers.others.followed(version)
  }

  /// Takes in what other processes have written.
  package func followOthers() throws(StoreError) { try checkOpen() }

  /// Runs a walk whose segments keep their slots, whatever the caller's closure asks of the store.
  func walking<Result, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    sharing.walkDepth += 1
    defer { sharing.walkDepth -= 1 }
    return try body()
  }

  static let briefPatienceNanoseconds: UInt64 = 100_000_000

  /// Opens a store that another process has made since, without keeping this thread.
  ///
  /// One at a time, and no writer beside it: the thread that opens waits for the writer's lock, and
  /// whoever in this process has that waits for the thread.
  func joinOthers() async throws(StoreError) {
    guard isShared, engine == nil else { return }
    while isMakingRoom { await withUnsafeContinuation { gate.append($0) } }
    guard engine == nil, !isSuspended, !isClosed else { return }
    isMakingRoom = true
    defer { openGate() }
    let box = try await opener.openWithoutBlocking(creating: false)
    guard engine == nil, !isSuspended, !isClosed else { return }
    engine = box.take()
    guard engine != nil else { return }
    begunFollowing()
    tellOpened()
  }

  /// The same for what cannot throw: it answers what is known then, and the next call that can
  /// throws.
  func tryToCatchUp() {
    do throws(StoreError) { try catchUp() } catch {}
  }

  func catchUpWithOthers() throws(StoreError) {
    guard engine != nil else {
      // Another process may have made the store since. This one cannot be waited for here for long.
      var opener = opener
      opener.patienceNanoseconds = Self.briefPatienceNanoseconds
      do throws(StoreError) {
        engine = try opener.open(creating: false)
      } catch {
        guard error.code == .locked, error.file == SharedLink.writerName, try isBeingCreated()
        else { throw error }
        return
      }
      guard engine != nil else { return }
      begunFollowing()
      tellOpened()
      return
    }
    guard let link = engine!.link else { return try findWriters() }
    if engine!.isFollowedInPart { return try readAnew() }
    guard link.page.load(.version) != sharing.seenVersion, let news = link.page.snapshot() else {
      return
    }
    try follow(news)
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

  private func follow(_ news: SharedPage.Snapshot) throws(StoreError) {
    defer { wakeForChange() }
    // The page begins anew when all who wrote have gone: then this process only reads.
    guard news.nonce == sharing.nonce else { return try readAnew() }
    do throws(StoreError) {
      if try engine!.follow(news) { return see(news.version) }
    } catch {
      // Somebody may have rotated or compacted it while it was read.
      guard error.code == .corrupted, !sharing.keepsSlots else { throw error }
    }
    try readAnew()
  }

  /// Reads all anew, as at opening: with the checkpoint of whoever has compacted the store.
  ///
  /// - Parameter published: how far the log reaches; nil for what the page says.
  func readAnew(to published: SharedPage.Snapshot? = nil) throws(StoreError) {
    guard let link = engine?.link else { return }
    guard !sharing.keepsSlots else {
      throw StoreError(
        .corrupted, "segments vanished while this process alone may rewrite them; reopen the store",
        file: Manifest.fileName)
    }
    let directory = engine!.directoryHandle()
    let lock = engine!.lockHandle()
    var heldMeanwhile: (any StorageFile)?
    if opener.configuration.isReadOnly {
      do throws(StoreError) { heldMeanwhile = try opener.takeLock(directory) } catch {
        // A process has the store for itself now. What this one knows of it stays as it is.
        guard error.code == .locked, !engine!.isFollowedInPart else { throw error }
        return
      }
    }
    defer { heldMeanwhile?.unlock() }
    var state = try opener.follow(
      directory, lock, link, Machine.monotonicNanoseconds(), to: published)
    state.appendedBytes = engine!.appendedBytes
    state.report = engine!.report
    state.lastSequence = max(state.lastSequence, engine!.lastSequence)
    engine = consume state
    begunFollowing()
    engine!.keyspaces.noteAll()
  }

  /// A reader that came before anybody shared the store.
  private func findWriters() throws(StoreError) {
    guard opener.configuration.isReadOnly else { return }
    guard let link = try SharedLink(reading: engine!.directoryHandle()), link.page.isMade,
      try link.isInUseNow()
    else { return }
    engine!.link = link
    try readAnew()
  }

  /// Remembers what a state that was just read is about.
  func begunFollowing() {
    if engine != nil {
      engine!.tellOfOthers()
      // Readers need no order: a feed that begins now may begin here or at a later operation.
      observers.openedSequence.store(engine!.lastSequence, ordering: .relaxed)
    }
    guard let page = engine?.link?.page else { return }
    // Of what was read, or older: then it is followed once more, in vain.
    sharing.nonce = page.load(.nonce)
    see(0)
    sharing.adoptedVersion = 0
    observers.others.follow(page)
    pipeline.sharedPage.withLock { $0 = page }
    observers.pins.share(page)
  }
}
