import MoraineEngine
import MoraineFormat

// One round: ship what was written since the last one.
extension ArchiveWriter {
  /// Ships everything that was written until now.
  ///
  /// - Parameter wantsCheckpoint: whether to begin a checkpoint in any case.
  func round(wantsCheckpoint: Bool = false) async throws(ArchiveError) {
    if machine == nil { _ = try await takeOver() }
    do throws(ArchiveError) {
      try await finishPending()
      try await finishCheckpoint()
      try await shipNews(wantsCheckpoint)
    } catch {
      guard machine == nil else { throw error }
      _ = try await takeOver()
      try await shipNews(wantsCheckpoint)
    }
  }

  private func shipNews(_ wantsCheckpoint: Bool) async throws(ArchiveError) {
    try await finishUploadIfDone()
    let began = ContinuousClock.now
    let cut = try await durableCut()
    // Another process may have written, and compacted, while the store was suspended.
    if cut.stay != stay { isContinuous = false }
    stay = cut.stay
    let (held, hasGap) = retired.take()
    // Remembered until a whole copy succeeds.
    if hasGap { (hasCopy, isContinuous) = (false, false) }
    if !hasCopy || cut.head.epoch != shipped.epoch {
      return try await shipContents(cut, began)
    }
    if checkpointed.storeBytes == nil {
      checkpointed.storeBytes = cut.segments.reduce(0) { $0 + $1.lengthBytes }
    }
    let mayBeDue = checkpointed.mayBeDue(
      configuration, position: shipped.position, now: configuration.now())
    let considers = upload == nil && (wantsCheckpoint || mayBeDue)
    if cut.sequence > shipped.sequence || considers {
      let tail = LogTail(
        after: shipped, logEnd, cut, held, hasAll: isContinuous && retired.isComplete)
      guard let tail else { return try await shipContents(cut, began) }
      // A checkpoint has the segments as they are now. So the bytes that later pieces continue must
      // be in the log: also the footer of a segment, which has no number.
      if !tail.parts.isEmpty { try await ship(tail, cut) }
    }
    isContinuous = true
    store.replicated(owner, through: cut)
    wasUpToDate(began)
    guard considers, checkpointed.position < shipped.position else { return }
    // The objects that are there already decide what a checkpoint costs.
    try await learnObjects()
    let now = configuration.now()
    let isDue = checkpointed.isDue(
      configuration, cut.segments, position: shipped.position, now: now)
    if wantsCheckpoint || isDue {
      beginUpload(cut)
    } else {
      checkpointed.refuse(position: shipped.position, at: now)
    }
  }

  /// Returns the present state of the store. Its bytes are on the disk, and its last number too:
  /// the store must not give a number that the archive has to another operation.
  private func durableCut() async throws(ArchiveError) -> LogCut {
    let cut = try await store.archivedState()
    do throws(StoreError) {
      return try await store.durableState(of: cut, after: shipped.sequence)
    } catch {
      throw ArchiveError(error)
    }
  }

  /// Ships the bytes between the archive's state and a cut, in as many commits as they need.
  private func ship(_ tail: LogTail, _ cut: LogCut) async throws(ArchiveError) {
    try await verify(tail)
    let commits = tail.commits(configuration.commitBytes)
    let keyspaces = cut.keyspaces.filter { knownKeyspaces?.contains($0) != true }
    var end = logEnd
    for (index, parts) in commits.enumerated() {
      let isLast = index == commits.count - 1
      // The numbers belong to the commit that ends at the cut.
      var header = nextHeader(
        .tail, isLast ? cut : nil, after: shipped.sequence, epoch: shipped.epoch)
      header.endsAtCut = isLast
      if index == 0 { header.keyspaces = keyspaces }
      header.pieces = parts.map(\.piece)
      end = header.pieces.last?.end ?? end
      header.logEnd = end
      let raw = try await bytes(of: parts)
      try await ship(header, raw, isLast ? ArchivedState(header) : nil)
    }
    knownKeyspaces = Set(cut.keyspaces)
  }

  /// Checks each record of the bytes, before the archive gets them.
  private func verify(_ tail: LogTail) async throws(ArchiveError) {
    let shipped = shipped.logEnd
    do throws(StoreError) {
      try await store.runBlocking { () throws(StoreError) in
        for part in tail.parts {
          // A part may begin within a record, where a cut takes several commits.
          let start = shipped.flatMap { part.segment.holds($0) ? Int($0.offset) : nil } ?? 0
          try part.segment.verify(from: start, to: part.range.upperBound)
        }
      }
    } catch {
      throw ArchiveError(error)
    }
  }

  /// Reads bytes of the log.
  private func bytes(of parts: [LogTail.Part]) async throws(ArchiveError) -> [UInt8] {
    do throws(StoreError) {
      return try await store.runBlocking { () throws(StoreError) in
        var raw: [UInt8] = []
        raw.reserveCapacity(parts.reduce(0) { $0 + $1.range.count })
        for part in parts {
          try part.segment.withBytes(part.range) { (bytes) throws(StoreError) in
            raw.append(contentsOf: bytes)
          }
        }
        return raw
      }
    } catch {
      throw ArchiveError(error)
    }
  }

  /// Ships a whole copy of the store, because the archive has no state from which the log leads to
  /// this one.
  private func shipContents(
    _ cut: LogCut, _ began: ContinuousClock.Instant
  ) async throws(ArchiveError) {
    try await finishUpload()
    let reference = try await uploadContents(cut)
    var header = nextHeader(
      .gap, cut, after: shipped.sequence, epoch: cut.head.epoch)
    header.contents = reference
    header.logEnd = cut.logEnd
    try await ship(header, [], ArchivedState(header))
    knownKeyspaces = Set(cut.keyspaces)
    (hasCopy, isContinuous) = (true, true)
    store.replicated(owner, through: cut)
    wasUpToDate(began)
    configuration.onEvent?(.gap(position: header.position))
    try await createCheckpoint(of: header, reference)
  }

  /// Adds the commit that says that the writer has ended in order.
  func close() async throws(ArchiveError) {
    guard machine != nil, failure == nil else { return }
    var header = nextHeader(.close, nil, after: shipped.sequence, epoch: shipped.epoch)
    (header.digest, header.liveCount) = (shipped.digest, shipped.count)
    header.logEnd = logEnd
    do throws(ArchiveError) {
      try await ship(header, [], ArchivedState(header))
    } catch {
      // After a long idle time the commit is not acknowledged. It says nothing that matters.
      guard machine == nil else { throw error }
    }
    await writeHint()
  }
}

extension LogTail.Part {
  var piece: CommitHeader.Piece {
    CommitHeader.Piece(
      segment: segment.identity.number, epoch: segment.identity.epoch,
      salt: segment.identity.salt, from: UInt64(range.lowerBound), length: UInt32(range.count))
  }
}
