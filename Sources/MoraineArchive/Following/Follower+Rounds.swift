import MoraineEngine
import MoraineFormat

// One round of a follower: read the commits that are new, and apply them.
extension Follower {
  /// The most commits that are applied together. A follower that is further from the next
  /// checkpoint begins again from a whole copy.
  private static let commitLimit: UInt64 = 4096
  /// Number of polls without news after which one asks for a newer checkpoint too.
  static let pollsPerCheckpoint = 16
  private static let promotionAttempts = 5

  /// Applies all commits that the archive has.
  ///
  /// - Parameter asks: whether to ask for a newer checkpoint too. Without that, a follower whose
  ///   commits were removed since it last asked takes itself for up to date.
  func readAll(asks: Bool) async throws(ArchiveError) {
    if asks { idlePolls = Self.pollsPerCheckpoint }
    var began = ContinuousClock.now
    while try await poll() { began = .now }
    if !needsCopy { wasUpToDate(began) }
  }

  /// Applies the commits up to a position, which exists, and none after it: the caller compares the
  /// state with that of the position. Another state than the follower's own cannot be applied here.
  ///
  /// - Returns: whether the follower has that state.
  func read(to position: UInt64) async throws(ArchiveError) -> Bool {
    while true {
      let applied = reader.applied?.position ?? 0
      if applied >= position { return true }
      guard try await poll(position - applied, mayRebase: false) else { return false }
    }
  }

  /// Reads some commits, and applies them.
  ///
  /// - Parameters:
  ///   - limit: the largest number of commits.
  ///   - mayRebase: whether the follower may begin again from a whole copy.
  /// - Returns: whether more may follow.
  private func poll(
    _ limit: UInt64 = Follower.commitLimit, mayRebase: Bool = true
  ) async throws(ArchiveError) -> Bool {
    let asks = idlePolls >= Self.pollsPerCheckpoint || !mayRebase
    var read = ReadCommits()
    var action = reader.poll(min(limit, Self.commitLimit), asksWhenIdle: asks)
    while true {
      switch action {
      case .request(let request):
        action = reader.receive(try await answer(request, &read))
      case .apply(let range):
        if try await apply(range, read) { return true }
        return try await beginFromCopy(mayRebase)
      case .rebase: return try await beginFromCopy(mayRebase)
      case .upToDate:
        idlePolls = asks ? 0 : idlePolls + 1
        return false
      case .damaged(let position, let damage):
        throw ArchiveError(
          .damaged, "the commit contradicts the one before it (\(damage))",
          object: objects.names.commit(position))
      case .unavailable: preconditionFailure("a follower has no target")
      }
    }
  }

  /// Begins again from a whole copy, now or with the next poll that may.
  ///
  /// - Returns: whether more may follow.
  private func beginFromCopy(_ mayRebase: Bool) async throws(ArchiveError) -> Bool {
    guard mayRebase else {
      // The machine has gone on to a state that the store does not have.
      await returnToDurable()
      return false
    }
    try await rebase()
    guard lastCopy != durable.position else {
      throw ArchiveError(
        .damaged, "the commits after a whole copy of the store do not continue it",
        object: objects.names.commit(durable.position + 1))
    }
    lastCopy = durable.position
    return true
  }

  private struct ReadCommits {
    var headers: [UInt64: CommitHeader] = [:]
    var commits: [UInt64: Commit] = [:]
    var byteCount = 0
  }

  private func answer(
    _ request: ArchiveRequest, _ read: inout ReadCommits
  ) async throws(ArchiveError) -> ArchiveAnswer {
    guard case .readCommit(let position) = request else {
      return try await objects.answer(request)
    }
    if read.byteCount > configuration.keptCommitBytes {
      guard let header = try await objects.header(position) else { return .absent }
      read.headers[position] = header
      return .commit(header.summary)
    }
    guard let commit = try await objects.commit(position) else { return .absent }
    read.headers[position] = commit.header
    read.commits[position] = commit
    read.byteCount += commit.rawBytes.count
    return .commit(commit.header.summary)
  }

  /// Applies commits that were read.
  ///
  /// - Returns: false when the follower must begin again from a whole copy.
  private func apply(
    _ range: ClosedRange<UInt64>, _ read: ReadCommits
  ) async throws(ArchiveError) -> Bool {
    var last: CommitHeader?
    // Where the manifest of a state could not be written, the store has that state, and its commits
    // are read again. A compaction may have removed their segments since.
    let reached = await store.following?.position ?? 0
    for position in range {
      guard let header = read.headers[position] else {
        preconditionFailure("a commit is applied that was not read")
      }
      highestEpoch = max(highestEpoch, header.epoch)
      switch header.kind {
      case .fence:
        // What was received before must be a state, to compare it with the fence's base.
        if let state = last { try await advance(to: state) }
        last = nil
        try await follow(fence: header)
        continue
      case .gap: return false
      case .tail:
        if needsCopy { continue }
        if position <= reached {
          next.assumedPosition = reached
          break
        }
        // These bytes may end within a record: the state before must be reached without them.
        if !header.endsAtCut, let state = last {
          try await advance(to: state)
          last = nil
        }
        guard try await receive(header, read.commits[position]) else { return false }
      case .beat, .close: if needsCopy { continue }
      }
      // The store cannot go back to a state before its own.
      if header.endsAtCut, position >= reached { last = header }
    }
    if let last { try await advance(to: last) }
    return true
  }

  /// Goes on from a fence, if it goes on from the state that this follower has.
  private func follow(fence header: CommitHeader) async throws(ArchiveError) {
    let cut = try await Self.cut(of: store)
    let isSame =
      cut?.sequence == header.base.sequence && cut?.head.digest == header.base.digest
    // Where the manifest of a state after the fence could not be written, the store has that state,
    // and the commits are read again from the last durable one.
    let isPassed = await store.following?.position ?? 0 >= header.position
    needsCopy = !isSame && !isPassed
    // The commits of the earlier writer that end between two states belong to no state.
    await forgetReceived()
    if isSame, let life = header.life { next.lives.append(life) }
  }

  /// - Returns: whether the bytes continue this store's log.
  private func receive(
    _ header: CommitHeader, _ kept: Commit?
  ) async throws(ArchiveError) -> Bool {
    let name = objects.names.commit(header.position)
    var commit = kept
    if commit == nil { commit = try await objects.commit(header.position) }
    guard let commit, commit.header == header else {
      throw ArchiveError(.unavailable, "the commit was removed while it was read", object: name)
    }
    next.keyspaces += header.keyspaces
    let pieces = zip(header.pieces, header.pieceRanges).map { piece, range in
      LogPiece(
        segment: SegmentIdentity(number: piece.segment, epoch: piece.epoch, salt: piece.salt),
        from: Int(piece.from), bytes: Array(commit.rawBytes[range]))
    }
    do throws(StoreError) {
      guard try await store.receive(pieces) else { return false }
    } catch {
      throw ArchiveError(error)
    }
    next.receivedCount += 1
    return true
  }

  /// Applies everything that was received, up to a state.
  private func advance(to header: CommitHeader) async throws(ArchiveError) {
    // The newest checkpoint that the machine knows may be above this commit.
    let isLast = header.position == reader.applied?.position
    let place = header.reference.following(
      objects.archiveID, checkpoint: isLast ? reader.knownCheckpoint : durable.checkpoint)
    var state = FollowedState(
      place, lastSequence: header.lastSequence, digest: header.digest,
      liveCount: header.liveCount)
    state.keyspaces = next.keyspaces.map {
      (Manifest.Keyspace(id: $0.id, index: $0.isOrdered ? 1 : 0, name: $0.name), $0.isOrdered)
    }
    state.epochs = next.lives
    (state.receivedCount, state.assumedPosition) = (next.receivedCount, next.assumedPosition)
    do throws(StoreError) { try await store.advance(to: state) } catch {
      guard error.code == .corrupted else { throw ArchiveError(error) }
      throw ArchiveError(
        .diverged, error.message, object: objects.names.commit(header.position),
        storeError: error)
    }
    next = PendingState()
    became(header.lastSequence, place, milliseconds: header.milliseconds)
  }

  // MARK: Promotion

  /// Fences the writer of the archive, and takes its place.
  func takeOver() async throws(ArchiveError) -> ArchiveWriter {
    // The archive's writer has made the whole check. A promotion should take few requests.
    if configuration.probesStore { try await objects.probe(.creations) }
    for _ in 0..<Self.promotionAttempts {
      try await readAll(asks: true)
      let hints = ArchiveHints(
        term: durable.term, checkpoint: reader.knownCheckpoint, position: durable.position)
      let promotion = Promotion(hints: hints) { [self] (head) async throws(ArchiveError) in
        try await highestEpoch(at: head)
      }
      if let writer = try await ArchiveWriter.attach(
        store, objects, configuration, promotion: promotion)
      {
        return writer
      }
      // The history went on from another state, from which this follower must begin again. The new
      // term exists, so the earlier writer does not go on.
    }
    throw ArchiveError(
      .fenced, "other writers attached to the archive all the time; promote one follower only",
      object: objects.names.root)
  }

  /// Applies the commits up to the head.
  ///
  /// - Returns: the highest epoch of the archive; nil when the follower has another state.
  private func highestEpoch(at head: UInt64) async throws(ArchiveError) -> UInt64? {
    try await read(to: head) ? highestEpoch : nil
  }
}
