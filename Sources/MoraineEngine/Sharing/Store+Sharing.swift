import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage

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
}

extension Store {
  nonisolated var isShared: Bool { opener.isShared }

  /// Takes in what other processes have written. Without news it is one load from memory.
  ///
  /// - Throws: `.corrupted`, `.io`.
  @inline(__always)
  func catchUp() throws(StoreError) {
    if isShared, sharing.burstDepth == 0, !isSuspended, !isClosed { try catchUpWithOthers() }
  }

  /// The same for what cannot throw: it answers what is known then, and the next call that can throws.
  func tryToCatchUp() {
    do throws(StoreError) { try catchUp() } catch {}
  }

  private func catchUpWithOthers() throws(StoreError) {
    guard engine != nil else {
      // Another process may have made the store since.
      engine = try opener.open(creating: false)
      if engine != nil { begunFollowing() }
      return
    }
    guard let link = engine!.link else { return try findWriters() }
    guard link.page.load(.version) != sharing.seenVersion, let news = link.page.snapshot() else {
      return
    }
    try follow(news)
  }

  private func follow(_ news: SharedPage.Snapshot) throws(StoreError) {
    // The page begins anew when all who wrote have gone: then this process only reads.
    let isFollowing = news.nonce == sharing.nonce
    if isFollowing, try engine!.follow(news) {
      sharing.seenVersion = news.version
    } else {
      try readAnew()
    }
    wakeForChange()
  }

  /// Reads all anew, as at opening: with the checkpoint of whoever has compacted the store.
  private func readAnew() throws(StoreError) {
    guard let link = engine?.link else { return }
    guard !sharing.keepsSlots else {
      throw StoreError(
        .corrupted, "segments vanished while this process alone may rewrite them; reopen the store",
        file: Manifest.fileName)
    }
    let directory = engine!.directoryHandle()
    let lock = engine!.lockHandle()
    var state = try opener.follow(directory, lock, link, Machine.monotonicNanoseconds())
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
    guard let link = try SharedLink(reading: engine!.directoryHandle()), link.page.isMade else {
      return
    }
    engine!.link = link
    try readAnew()
  }

  /// Remembers what a state that was just read is about.
  func begunFollowing() {
    guard let page = engine?.link?.page else { return }
    // Of what was read, or older: then it is followed once more, in vain.
    sharing.nonce = page.load(.nonce)
    sharing.seenVersion = 0
    sharing.adoptedVersion = 0
    pipeline.sharedPage.withLock { $0 = page }
    observers.pins.share(page)
  }

  /// Takes the writer's lock of a shared store, and all that others have written. Whoever in this
  /// process comes while it is held has it too.
  ///
  /// - Returns: whether ``leaveBurst()`` is to be called; false in a store of one's own.
  /// - Throws: `.locked`, `.poisoned`, `.corrupted`, `.io`; the lock is free then.
  func enterBurst() async throws(StoreError) -> Bool {
    guard isShared, !opener.configuration.isReadOnly, engine?.link != nil else { return false }
    while sharing.isEntering { await withUnsafeContinuation { sharing.gate.append($0) } }
    guard let link = engine?.link, sharing.burstDepth == 0 else {
      sharing.burstDepth += 1
      return true
    }
    sharing.isEntering = true
    defer { entered() }
    if try !link.tryWriter() {
      try await pipeline.run { () throws(StoreError) in try link.waitForWriter() }
    }
    do throws(StoreError) {
      try await takeOver(link)
    } catch {
      link.freeWriter()
      throw error
    }
    sharing.burstDepth = 1
    return true
  }

  /// Takes in all that others have written, and lets the committing thread know of it.
  func passBurst() async throws(StoreError) {
    if try await enterBurst() { leaveBurst() }
  }

  private func entered() {
    sharing.isEntering = false
    let waiting = sharing.gate
    sharing.gate = []
    for continuation in waiting { continuation.resume() }
  }

  /// Brings the state to what the log says, and the log to a shape that can be appended to.
  private func takeOver(_ link: SharedLink) async throws(StoreError) {
    let page = link.page
    if page.load(.poison) != 0 {
      pipeline.poison(
        StoreError(.io, "a sync of another process failed", file: opener.path.string))
      if let poison = pipeline.poison { throw poison }
    }
    if page.load(.burst) != 0 { return try await takeOverFromDead(link) }
    if page.load(.version) == sharing.adoptedVersion, engine!.active != nil {
      page.store(UInt64(Machine.processID), .burst)
      return
    }
    try catchUpWithOthers()
    guard let snapshot = page.snapshot() else { return try await takeOverFromDead(link) }
    if engine!.hasOpenTail(), snapshot.tailLimit == 0 {
      // Its writer could not end it; the disk was full perhaps.
      return try await takeOverFromDead(link)
    }
    try engine!.adoptTail(snapshot)
    page.store(UInt64(Machine.processID), .burst)
  }

  /// Ends the segment in which a writer died: nobody appends behind what it may have left.
  private func takeOverFromDead(_ link: SharedLink) async throws(StoreError) {
    // The manifest may have been replaced, and nobody told of it.
    if link.page.snapshot() == nil { link.page.publish(engine!.sharedSnapshot()) }
    link.page.store(UInt64(Machine.processID), .burst)
    if try !engine!.followManifest(SharedPage.Snapshot()) { try readAnew() }
    guard let segment = try engine!.takeOverTail() else { return }
    let directory = engine!.directoryHandle()
    if !segment.isEmpty {
      var report = engine!.report
      report = try await pipeline.run { [report] () throws(StoreError) in
        var report = report
        try segment.makeDurable(directory, &report)
        return report
      }
      engine!.report = report
    }
    engine!.settleTail(segment)
    do throws(StoreError) {
      try await publishManifest()
    } catch {
      guard error.code == .noSpace, try await releaseReserve() else { throw error }
      try await publishManifest()
    }
    pipeline.begin(file: nil, sequence: engine!.lastSequence, offset: 0)
    engine!.keyspaces.noteAll()
    guard segment.isEmpty else { return }
    try await pipeline.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try directory.remove(segment.name) }
    }
  }

  /// Publishes what was appended, and lets others write.
  func leaveBurst() {
    precondition(sharing.burstDepth > 0, "a lock is left that was not taken")
    sharing.burstDepth -= 1
    guard sharing.burstDepth == 0, let link = engine?.link else { return }
    let page = link.page
    if pipeline.hasPoison {
      page.store(1, .poison)
    } else {
      page.publish(engine!.sharedSnapshot())
      page.store(0, .burst)
      sharing.seenVersion = page.load(.version)
      sharing.adoptedVersion = sharing.seenVersion
    }
    link.freeWriter()
    do throws(StoreError) {
      try link.ring()
    } catch {
      // They look by themselves once a second.
    }
  }
}
