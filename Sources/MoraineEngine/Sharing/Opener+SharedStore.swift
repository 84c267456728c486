import MoraineFormat
import MoraineStorage

/// Functions that open a store which other processes may have open.
extension Opener {
  var isShared: Bool { configuration.sharing == .shared }

  /// Checks that a store may be shared, before `LOCK` is created where it is missing: a copy of a
  /// backup may lack it. Where it exists, a store that another program has open is `.locked`,
  /// whatever its manifest says.
  func checkUseBeforeLocking(_ directory: any StorageDirectory) throws(StoreError) {
    guard isShared, !configuration.isReadOnly else { return }
    let stamp = try storing { () throws(StorageError) in try directory.stamp(of: FileName.lock) }
    if stamp == nil { try checkUse(try ManifestFile.readPresent(directory)) }
  }

  /// - Returns: nil when the directory contains no store and none is to be created.
  func openShared(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ began: UInt64
  ) throws(StoreError) -> EngineState? {
    assert(isShared && !configuration.isReadOnly, "a reader opens a store for writing")
    // Before anything else is created: a backup, and a store that this program must not write to or
    // does not understand, stay as they are. The name is looked up, because a list of the directory
    // may lack a manifest that another process is replacing.
    try checkUse(try ManifestFile.readPresent(directory))
    let link = try makeLink(directory)
    try link.waitForWriter(patienceNanoseconds: patienceNanoseconds)
    defer { link.freeWriter() }
    guard try link.becomeOnly() else {
      try link.checkLockFiles()
      try link.joinOthers()
      return try joined(directory, lock, link, began)
    }
    try synchronizeNames(of: directory)
    var state = try openAlone(directory, lock, try DirectoryContents(directory), began, link: link)
    state.log.link = link
    state.followed.nonce = SystemRandom.number() | 1
    link.page.make(
      state.sharedSnapshot(), nextSegment: state.log.manifest.nextSegmentNumber,
      nonce: state.followed.nonce, inodes: link.inodes)
    try link.joinOthers()
    return state
  }

  /// Creates the files of sharing; on a full disk it releases the reserve for them.
  private func makeLink(_ directory: any StorageDirectory) throws(StoreError) -> SharedLink {
    do throws(StoreError) { return try SharedLink(directory) } catch {
      guard error.code == .noSpace else { throw error }
      try storing { () throws(StorageError) in try directory.remove(FileName.reserve) }
      return try SharedLink(directory)
    }
  }

  private func joined(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ link: SharedLink,
    _ began: UInt64
  ) throws(StoreError) -> EngineState {
    var state = try follow(directory, lock, link, began, hasWriter: true)
    state.hasJoined = true
    state.report.elapsedNanoseconds = SystemClock.monotonicNanoseconds() - began
    return state
  }

  /// Opens a store for reading only. Beside writers it reads what they have published; otherwise it
  /// reads the whole log, and no process can begin to write before it has finished.
  func openForReading(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ began: UInt64
  ) throws(StoreError) -> EngineState {
    assert(configuration.isReadOnly, "a writer opens a store for reading")
    guard let link = try SharedLink(reading: directory) else {
      return try openNeverShared(directory, lock, began)
    }
    try link.waitForWriter(patienceNanoseconds: patienceNanoseconds)
    defer { link.freeWriter() }
    if try link.isInUse() {
      try link.checkLockFiles()
      return try joined(directory, lock, link, began)
    }
    return try readAlone(directory, lock, began)
  }

  private func readAlone(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ began: UInt64
  ) throws(StoreError) -> EngineState {
    let state = try openAlone(directory, lock, try DirectoryContents(directory), began)
    // A later writer may remove these files in a compaction.
    try state.log.table.holdFiles()
    return state
  }

  /// Opens a store that was never shared. No lock keeps other processes from sharing it during the
  /// opening: when one does, the store is read again.
  private func openNeverShared(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ began: UInt64
  ) throws(StoreError) -> EngineState {
    do throws(StoreError) {
      let state = try readAlone(directory, lock, began)
      if try SharedLink(reading: directory) == nil { return state }
    } catch {
      guard try SharedLink(reading: directory) != nil else { throw error }
    }
    return try openForReading(directory, lock, began)
  }

  /// Reads the store up to the end that other processes have published, while they may write.
  ///
  /// - Parameters:
  ///   - published: the published end; nil for the one that the page contains.
  ///   - hasWriter: whether the caller holds the writer's lock.
  func follow(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ link: SharedLink,
    _ began: UInt64, to published: SharedPage.Publication? = nil, hasWriter: Bool = false
  ) throws(StoreError) -> EngineState {
    var attempts = 0
    while true {
      attempts += 1
      guard let snapshot = published ?? link.page.snapshot() else {
        if let state = try readAfterDeath(directory, lock, link, began, hasWriter) { return state }
        try Self.pause(attempts)
        continue
      }
      do throws(StoreError) {
        let isLast = published != nil
        if let state = try read(directory, lock, link, began, through: snapshot, isLast: isLast) {
          return state
        }
        try Self.pause(attempts)
      } catch {
        if error.code == .storeReplaced { throw error }
        // Another process may have compacted the store since: then it must be read again.
        guard link.page.load(.version) != snapshot.version || attempts < 3 else { throw error }
        try Self.pause(attempts)
      }
    }
  }

  /// - Parameter isLast: whether the log is read no further than the publication, whatever the page
  ///   contains by now.
  /// - Returns: nil when the page and the manifest did not belong together; or when a checkpoint
  ///   was used and the manifest was replaced since: deletes may be missing from the log that the
  ///   checkpoint does not cover.
  private func read(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ link: SharedLink,
    _ began: UInt64, through published: SharedPage.Publication, isLast: Bool
  ) throws(StoreError) -> EngineState? {
    var snapshot = published
    let listing = try DirectoryContents(directory)
    guard let manifest = try ManifestFile.read(directory, listing) else {
      throw StoreError(
        .corrupted, "the manifest was removed while the store was open; restore it",
        file: Manifest.fileName)
    }
    try checkHistory(manifest)
    guard manifest.generation >= snapshot.generation else {
      throw StoreError(
        .corrupted, "the manifest is older than the published one; restore the newer one",
        file: Manifest.fileName)
    }
    if !isLast, manifest.generation != snapshot.generation {
      // This manifest may lack a record because of a younger one, which only a younger publication
      // contains.
      guard let later = link.page.snapshot(), later.nonce == snapshot.nonce,
        later.generation <= manifest.generation
      else { return nil }
      snapshot = later
    }
    var state = try recover(
      directory, lock, listing, manifest, began, link: link, following: snapshot)
    if state.report.usedCheckpoint,
      try ManifestFile.read(directory, listing)?.generation != manifest.generation
    {
      return nil
    }
    state.log.link = link
    state.followed = (snapshot.nonce, snapshot.version)
    return state
  }

  /// Reads all whole units of the log when the page contains no valid end: a writer died while it
  /// published. The next writer takes over the same units.
  ///
  /// - Returns: nil when another process has repaired the page since.
  /// - Throws: `.locked` when a living writer does not end its publication.
  private func readAfterDeath(
    _ directory: any StorageDirectory, _ lock: (any StorageFile)?, _ link: SharedLink,
    _ began: UInt64, _ hasWriter: Bool
  ) throws(StoreError) -> EngineState? {
    var own: SharedLink?
    if !hasWriter, let reading = try SharedLink(reading: directory) {
      // The file of `link` cannot be used: a writer of this process may hold its lock.
      try reading.waitForWriter(patienceNanoseconds: patienceNanoseconds)
      own = reading
    }
    defer { own?.freeWriter() }
    let page = link.page
    guard page.snapshot() == nil else { return nil }
    return try read(directory, lock, link, began, through: page.wholeLog, isLast: true)
  }

  private static func pause(_ attempts: Int) throws(StoreError) {
    guard attempts < 2000 else {
      throw StoreError(
        .locked, "the other processes change the store faster than it can be read; try again",
        file: FileName.sharedPage)
    }
    SystemClock.sleep(nanoseconds: 500_000)
  }
}

/// Functions that read a store beside processes that write.
extension Recovery {
  /// Replays the published records of a segment that other processes append to. Replays nothing of
  /// a segment that is newer than the publication.
  func followOpen(
    _ entry: Manifest.Segment, _ known: SegmentOpening.Opened?, _ following: SharedPage.Publication,
    _ state: inout EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    assert(!following.takesAllUnits, "more than the published part of a segment is to be read")
    let slot: Int
    if let known {
      slot = known.slot
      // A reader lists no segment, and need not read what the checkpoint spares it.
      if !opener.configuration.isReadOnly {
        try known.checkFigures(state.log.table[slot], of: state.checkpointNames.first)
      }
      state.log.lastSequence = max(state.log.lastSequence, known.lastSequence)
    } else {
      let length = Int(clamping: listing.segments[entry.number] ?? 0)
      slot = try SegmentOpening.add(
        entry, &state, length: length, growingTo: growth(of: entry)
      ).slot
    }
    guard following.tailSegment == entry.number.rawValue else { return }
    report.replayedBytes += UInt64(max(0, following.tailEnd - state.log.table[slot].end))
    try state.replayTail(slot, to: following.tailEnd)
  }
}
