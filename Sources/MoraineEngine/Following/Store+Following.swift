package import MoraineFormat
package import MoraineStorage
import Synchronization
package import SystemPackage

/// A state of an archive that a follower goes on to.
package struct FollowedState: Sendable {
  /// The place in the archive's history.
  package var following: Manifest.Following
  package var lastSequence: SequenceNumber
  package var digest: StateDigest
  package var liveCount: UInt64
  /// Keyspaces that the store may not know yet, each with whether it is ordered.
  package var keyspaces: [(keyspace: Manifest.Keyspace, isOrdered: Bool)] = []
  /// Lives of the store that began after the state before.
  package var epochs: [Manifest.Epoch] = []
  /// Number of calls of ``Store/receive(_:)`` since the state before.
  package var receivedCount = 0
  /// The position of a state that the store must have: commits up to it were not received again.
  package var assumedPosition: UInt64 = 0

  package init(
    _ following: Manifest.Following, lastSequence: SequenceNumber, digest: StateDigest,
    liveCount: UInt64
  ) {
    (self.following, self.lastSequence) = (following, lastSequence)
    (self.digest, self.liveCount) = (digest, liveCount)
  }
}

// A follower: a store whose log grows with the bytes of an archive. Every segment of it is listed
// as sealed, with the length that was applied, and the manifest is replaced with each state. So a
// follower that was killed opens like a store that was closed in order: at the last state that it
// had reached, whose digest the opening compares.
extension Store {
  /// The place in the archive's history that the store has reached; nil when it follows no archive.
  package var following: Manifest.Following? { engine?.log.manifest.following }

  /// Receives bytes of the log. They are applied by ``advance(to:)``. One call at a time.
  ///
  /// - Returns: whether they continue this store's log. If not, nothing was received.
  /// - Throws: `.noSpace`, `.io`, `.closed`, `.suspended`, `.poisoned`.
  package func receive(_ pieces: [LogPiece]) async throws(StoreError) -> Bool {
    try await checkFollowing()
    var segments = incoming
    var writes: [(index: Int, piece: LogPiece)] = []
    var ends = segments.map(\.end)
    for piece in pieces {
      if let index = segments.lastIndex(where: { $0.identity == piece.segment }) {
        guard piece.from <= ends[index] else { return false }
        ends[index] = max(ends[index], piece.end)
        writes.append((index, piece))
        continue
      }
      guard let start = engine!.appliedEnd(before: piece) else { return false }
      if piece.end <= start { continue }
      segments.append(IncomingSegment(piece.segment, appliedTo: start))
      ends.append(piece.end)
      writes.append((segments.count - 1, piece))
    }
    let directory = engine!.directoryHandle()
    let (known, steps) = (segments, writes)
    let received = try await runInDirectory { () throws(StoreError) in
      var segments = known
      for (index, piece) in steps { try segments[index].write(piece, in: directory) }
      return segments
    }
    // A store that leaves its directory forgets what it has received.
    try checkUsable()
    incoming = received
    receivedCount += 1
    return true
  }

  /// Forgets the bytes that were received and not applied, and removes the files that only they are
  /// in: a manifest that does not follow must not be older than such a file.
  ///
  /// - Throws: `.io`; the bytes are forgotten. After a failed sync the store is poisoned.
  package func forgetReceived() async throws(StoreError) {
    let files = incoming.filter(\.isNew).map(\.identity.number.fileName)
    (incoming, receivedCount) = ([], 0)
    // A store that leaves its directory leaves the files to the next opening.
    guard !files.isEmpty, !isClosed, !isSuspended, let directory = engine?.directoryHandle()
    else { return }
    try await runInDirectory { [pipeline] () throws(StoreError) in
      try storing { () throws(StorageError) in
        for name in files { try directory.remove(name) }
      }
      // A manifest that does not follow must not become durable before that.
      try pipeline.syncing { () throws(StorageError) in try directory.synchronize() }
    }
  }

  /// Applies the bytes that were received, and makes the new state durable.
  ///
  /// - Throws: `.corrupted` when the bytes are not the log of that state: then the store must be
  ///   opened again, which leads back to the state before. `.noSpace`, `.io`: nothing was applied,
  ///   or the call may be repeated without bytes; after a failed sync the store is poisoned.
  ///   `.closed`, `.poisoned`.
  package func advance(to state: FollowedState) async throws(StoreError) {
    try await checkFollowing()
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    try checkUsable()
    let position = engine?.log.manifest.following?.position ?? 0
    guard receivedCount == state.receivedCount, position >= state.assumedPosition else {
      throw StoreError(
        .suspended, "the store was suspended since it had these bytes; receive them again")
    }
    let received = incoming
    (incoming, receivedCount) = ([], 0)
    if !received.isEmpty {
      let generation = try await makeDurable(received)
      try checkUsable()
      engine!.log.manifest.generation = max(engine!.log.manifest.generation, generation)
    }
    do throws(StoreError) {
      try engine!.apply(received, state)
    } catch {
      // The state in memory is neither the old nor the new one. Nothing may be published from it,
      // and no read may return it.
      lifecycle.diverge(error)
      pipeline.poison(error)
      throw error
    }
    defer { wakeForChange() }
    let next = engine!.nextManifest()
    let publisher = engine!.log.publisher()
    // Before it is durable: a check of the store compares its segments with the manifest.
    engine!.log.adoptManifest(next)
    try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    pipeline.beginSegment(file: nil, sequence: engine!.log.lastSequence, offset: 0)
    compactIfWorthIt()
  }

  /// Makes bytes that were received durable, on a thread of the pool.
  ///
  /// - Returns: the highest generation of the segments.
  private func makeDurable(_ received: [IncomingSegment]) async throws(StoreError) -> UInt64 {
    let directory = engine!.directoryHandle()
    return try await runInDirectory { [pipeline] () throws(StoreError) in
      var generation: UInt64 = 0
      for segment in received {
        generation = max(generation, try segment.makeDurable(pipeline).generation)
      }
      if received.contains(where: \.isNew) {
        try pipeline.syncing { () throws(StorageError) in try directory.synchronize() }
      }
      return generation
    }
  }

  /// Runs a job that blocks and changes files. A store that leaves its directory waits for its end.
  private func runInDirectory<Result: Sendable>(
    _ job: @escaping @Sendable () throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    writing.beginSegmentTask()
    defer { writing.endSegmentTask() }
    return try await runBlocking(job)
  }

  /// Ends the following: from now on the store is written to, as the next life of its history.
  ///
  /// - Parameters:
  ///   - epoch: the epoch of that life, above all others of the archive.
  ///   - instanceID: its random name.
  /// - Throws: `.noSpace`, `.io`; the store still follows then.
  package func beginLife(
    epoch: UInt64, instanceID: StoreIdentifier
  ) async throws(StoreError) {
    try await checkFollowing()
    try await forgetReceived()
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    try checkUsable()
    // The store follows until this manifest is published. A compaction may go on beside that.
    var next = engine!.nextManifest()
    precondition(epoch > next.epoch, "a life begins with an epoch that was used")
    next.begin(
      Manifest.Epoch(
        epoch: epoch, firstSequence: SequenceNumber(rawValue: engine!.log.lastSequence + 1),
        instanceID: instanceID))
    next.instanceID = instanceID
    next.following = nil
    try await publishManifest(next)
    engine!.refusesWrites = false
    // Relaxed: see the declaration.
    pipeline.isFollowing.store(false, ordering: .relaxed)
    scheduleReaping()
    compactIfWorthIt()
  }

  /// Throws `.suspended` while the store is suspended.
  package func checkIsNotSuspended() throws(StoreError) {
    if isSuspended { throw .ofSuspendedStore }
  }

  /// Closes the store, which cannot be suspended between the check and the closing.
  ///
  /// - Throws: `.suspended`, and the store stays so; the errors of ``close()``.
  package func closeUnlessSuspended() async throws(StoreError) {
    try checkIsNotSuspended()
    try await close()
  }

  private func checkFollowing() async throws(StoreError) {
    try await checkOpen()
    if let poison = pipeline.poison { throw poison }
    guard engine?.log.manifest.following != nil else {
      throw StoreError(.invalidArgument, "the store follows no archive", file: opener.path.string)
    }
  }
}

extension EngineState {
  /// Returns the end of the applied bytes that a piece must continue: zero for a new segment. Nil
  /// when the piece continues nothing here.
  fileprivate func appliedEnd(before piece: LogPiece) -> Int? {
    let number = piece.segment.number
    guard let slot = log.table.order.last(where: { log.table.infos[$0].number == number }) else {
      return piece.from == 0 ? 0 : nil
    }
    let (info, end) = (log.table.infos[slot], log.table[slot].end)
    guard info.epoch == piece.segment.epoch, info.salt == piece.segment.salt, piece.from <= end
    else { return nil }
    // Only the last segment grows, and no record follows a footer.
    let grows = slot == log.table.order.last && info.flags.contains(.cut)
    return grows || piece.end <= end ? end : nil
  }

  /// Applies received segments, which are durable, and becomes the given state.
  fileprivate mutating func apply(
    _ received: [IncomingSegment], _ state: FollowedState
  ) throws(StoreError) {
    assert(log.active == nil, "a follower appends to its log")
    for (keyspace, isOrdered) in state.keyspaces { try add(keyspace, isOrdered: isOrdered) }
    for epoch in state.epochs where epoch.epoch > log.manifest.epoch { log.manifest.begin(epoch) }
    for segment in received { try apply(segment) }
    try checkStrayKeys()
    log.lastSequence = max(log.lastSequence, state.lastSequence.rawValue)
    guard live.digest == state.digest, live.count == state.liveCount else {
      throw StoreError(
        .corrupted,
        "after operation \(state.lastSequence) this follower has another state than the archive: "
          + "\(live.count) records instead of \(state.liveCount), or other ones",
        file: Manifest.fileName)
    }
    log.manifest.following = state.following
    recordForeignCommits()
  }

  private mutating func add(
    _ keyspace: Manifest.Keyspace, isOrdered: Bool
  ) throws(StoreError) {
    if keyspace.id != 0, keyspaces.name(of: keyspace.id) == nil {
      keyspaces.add(keyspace)
      log.manifest.keyspaces.append(keyspace)
    }
    guard isOrdered, !live.isOrdered(keyspace.id) else { return }
    log.manifest.order(keyspace.id)
    try order(keyspace.id, keepsStrayKeys: true)
  }

  private mutating func apply(_ segment: IncomingSegment) throws(StoreError) {
    let number = segment.identity.number
    let slot: Int
    if segment.isNew {
      var entry = Manifest.Segment(number: number, epoch: segment.identity.epoch)
      entry.lengthBytes = UInt64(segment.end)
      slot = try SegmentOpening.add(entry, &self, length: segment.end).slot
      if number.rawValue >= log.manifest.nextSegmentNumber {
        log.manifest.nextSegmentNumber = number.rawValue + 1
        log.manifest.leaveNumbersToTheWriter()
      }
    } else {
      guard let known = log.table.order.last, log.table.infos[known].number == number else {
        throw .corrupted("the segment is not the last one", number.fileName, at: segment.start)
      }
      slot = known
      try reopenFile(slot, length: segment.end)
    }
    let result = try replayOn(slot, length: segment.end)
    guard result.validEnd == segment.end else {
      let stop = result.stop ?? (result.validEnd, "incomplete batch: its last record is missing")
      throw .corrupted(stop.reason, number.fileName, at: stop.offset)
    }
    log.table.infos[slot].flags.insert(.sealed)
    if result.hasFooter {
      log.table.infos[slot].flags.remove(.cut)
    } else {
      log.table.infos[slot].flags.insert(.cut)
    }
    log.countIngested(bytes: segment.end - segment.start)
  }
}

extension Store {
  /// Opens a store on any storage, and does not block the caller's thread.
  package static func open(
    on storage: any Storage, at directory: FilePath, configuration: Store.Configuration
  ) async throws(StoreError) -> Store {
    let pipeline = CommitPipeline(events: EventRelay(configuration.onEvent))
    return try await open(try opener(storage, directory, configuration, pipeline))
  }

  /// Returns whether a directory contains a store. The files of an interrupted restore are none.
  ///
  /// - Throws: `.io`.
  package static func exists(
    at path: FilePath, on storage: any Storage
  ) async throws(StoreError) -> Bool {
    try await SerialQueue(.brief).run { () throws(StoreError) in
      let directory = try storing { () throws(StorageError) in try storage.openDirectory(path) }
      guard let directory else { return false }
      let listing = try DirectoryContents(directory)
      return listing.hasStore && (listing.hasManifest || !listing.isRestoring)
    }
  }
}
