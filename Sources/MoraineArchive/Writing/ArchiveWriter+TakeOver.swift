import MoraineEngine
import MoraineFormat
import MoraineStorage
import Synchronization

/// What a follower needs to become the writer of its archive.
struct Promotion: Sendable {
  /// The name of the life of the store that begins.
  let instanceID = StoreIdentifier(low: SystemRandom.number(), high: SystemRandom.number())
  /// What the follower knows of the archive's end.
  let hints: ArchiveHints
  /// Applies the commits up to a position. Returns the highest epoch of the archive; nil when the
  /// follower has another state.
  let catchUp: @Sendable (UInt64) async throws(ArchiveError) -> UInt64?
}

// Taking over an archive: whether this store continues its history, and the fence.
extension ArchiveWriter {
  private func hints() async throws(ArchiveError) -> ArchiveHints {
    if let promotion { return promotion.hints }
    guard let hint = try await objects.hint() else { return ArchiveHints() }
    return ArchiveHints(term: hint.term, checkpoint: hint.checkpoint, position: hint.position)
  }

  /// Takes over the archive. Afterwards ``shipped`` is the state that this store continues.
  ///
  /// - Returns: false when a follower that is to be promoted has another state than the archive.
  func takeOver() async throws(ArchiveError) -> Bool {
    // Until the end, no machine runs: the next round begins here again after an error.
    (machine, pending, pendingCheckpoint, knownKeyspaces) = (nil, nil, nil, nil)
    upload?.task.cancel()
    upload = nil
    isContinuous = false
    uploaded = UploadedSegments()
    // Another writer may have made a checkpoint since, and a cleaning removed these.
    checkpointed.objects = nil
    let hints = try await hints()
    var taking = TakeOver(hints)
    var cut = try await stateToArchive()
    if promotion == nil { try await look(hints, cut) }
    var life = cut.head.life
    var began = ContinuousClock.now
    var fence: (header: CommitHeader, base: ArchivedState)?
    var continues = false
    var action = taking.begin()
    var attempts = Attempts(objects.patience)
    while true {
      switch action {
      case .request(let request):
        if case .createTerm = request { began = .now }
        let answer = try await answer(request, fence?.header, life, &attempts)
        let isLate = ContinuousClock.now - began > configuration.stallLimit
        action = isLate ? taking.stalledTooLong() : taking.receive(answer)
      case .headFound(let head):
        if let promotion {
          guard let epoch = try await promotion.catchUp(head.position) else { return false }
          cut = try await stateToArchive()
          life = promotion.life(after: epoch, cut)
        }
        let (base, isHead) = try await base(at: head, cut)
        try await recordAttachment(head.term, over: base)
        attempts = Attempts(objects.patience)
        let header = self.fence(on: base, after: head, life)
        continues = isHead && cut.continues(base, in: life)
        fence = (header, base)
        action = taking.fence(header.nonce.identity)
      case .fenced: throw fencedError
      case .attached(let state):
        guard let fence else { preconditionFailure("a writer attaches without a fence") }
        try await beginLife(life)
        machine = Shipping(state)
        lastCheck = began
        (position, previous) = (fence.header.position, fence.header.nonce)
        logEnd = fence.header.logEnd
        let checkpoint = state.checkpoint?.commit.position ?? 0
        if checkpoint != checkpointed.position {
          (checkpointed.bytes, checkpointed.storeBytes) = (0, nil)
        }
        checkpointed.position = checkpoint
        var shipped = fence.base
        (shipped.position, shipped.nonce) = (position, previous)
        (shipped.term, shipped.epoch) = (state.term, fence.header.epoch)
        // A new life of the store begins with a whole copy, unless its log goes on where the
        // archive ends.
        hasCopy = continues && (shipped.logEnd != nil || state.checkpoint != nil)
        became(shipped)
        progress.withLock { $0.checkpoint = state.checkpoint?.number ?? 0 }
        configuration.onEvent?(.attached(term: state.term))
        return true
      }
    }
  }

  /// Checks that this store continues the archive, before its term fences a writer that is alive:
  /// an old copy that is refused must not stop that writer. The search is that of the take-over,
  /// and nothing is created.
  private func look(_ hints: ArchiveHints, _ cut: LogCut) async throws(ArchiveError) {
    var looking = TakeOver(hints)
    var action = looking.begin()
    while case .request(let request) = action {
      if case .createTerm(let term) = request {
        let isTaken = try await objects.answer(.readTerm(term)) == .exists
        action = looking.receive(isTaken ? .exists : .created)
      } else {
        action = looking.receive(try await objects.answer(request))
      }
    }
    if case .headFound(let head) = action { _ = try await base(at: head, cut) }
  }

  private func answer(
    _ request: ArchiveRequest, _ fence: CommitHeader?, _ life: Manifest.Epoch,
    _ attempts: inout Attempts
  ) async throws(ArchiveError) -> ArchiveAnswer {
    try objects.checkNumber(request)
    switch request {
    case .createTerm(let term):
      let record = TermRecord(
        archiveID: objects.archiveID, term: term, nonce: .random,
        createdMilliseconds: configuration.milliseconds(), instanceID: life.instanceID,
        writer: configuration.writerName)
      return try await create(objects.names.term(term), record.encoded(), &attempts)
    case .createCommit(let position, _):
      guard let fence else { preconditionFailure("a fence is created before it is made") }
      return try await create(objects.names.commit(position), fence.encoded(), &attempts)
    default: return try await objects.answer(request)
    }
  }

  /// Returns the present state; that of a follower is not written to.
  private func stateToArchive() async throws(ArchiveError) -> LogCut {
    guard promotion != nil else { return try await store.archivedState() }
    guard let cut = try await Follower.cut(of: store) else {
      throw ArchiveError(.diverged, "the follower has no state", object: objects.names.root)
    }
    return cut
  }

  /// Lets a follower's store be written to.
  private func beginLife(_ life: Manifest.Epoch) async throws(ArchiveError) {
    guard promotion != nil else { return }
    do throws(StoreError) {
      try await store.beginLife(epoch: life.epoch, instanceID: life.instanceID)
    } catch {
      throw ArchiveError(error)
    }
  }

  private func recordAttachment(
    _ term: UInt64, over base: ArchivedState
  ) async throws(ArchiveError) {
    do throws(StoreError) {
      try await store.recordAttachment(
        Manifest.Attachment(
          archiveID: objects.archiveID, term: term, earlierTerm: base.term))
    } catch {
      throw ArchiveError(error)
    }
  }

  private func fence(
    on base: ArchivedState, after head: ArchiveHead, _ life: Manifest.Epoch
  ) -> CommitHeader {
    let isNewLife = base.position == 0 || base.epoch != life.epoch
    var header = CommitHeader(
      .fence, archiveID: objects.archiveID, position: head.position + 1, term: head.term,
      nonce: .random, previousNonce: head.commit.map { Nonce($0.identity) } ?? .zero,
      epoch: life.epoch,
      firstSequence: SequenceNumber(rawValue: base.sequence.rawValue + 1),
      lastSequence: base.sequence)
    header.milliseconds = configuration.milliseconds()
    (header.digest, header.liveCount) = (base.digest, base.count)
    header.base = base.base
    header.logEnd = base.logEnd
    if isNewLife { header.instanceID = life.instanceID }
    return header
  }

  /// Returns the state of the archive that this store continues, and whether that is the newest.
  ///
  /// - Throws: `.diverged` when it continues none.
  private func base(
    at head: ArchiveHead, _ cut: LogCut
  ) async throws(ArchiveError) -> (ArchivedState, isHead: Bool) {
    guard head.commit != nil else { return (.empty, true) }
    let (state, isHead) = try await newestCut(at: head.position, head)
    if state.epoch == cut.head.epoch {
      guard state.sequence <= cut.sequence else { throw olderCopy(state, cut) }
      if promotion != nil {
        // The follower has read the history up to here, so it has the same log.
        guard state.sequence == cut.sequence, state.digest == cut.head.digest else {
          throw diverged("the follower has another state than the archive")
        }
      } else if let place = state.logEnd {
        try await check(place, of: state, head, cut)
      }
      return (state, true)
    }
    // This store was restored, and has gone on as another life since the operation `first`.
    guard state.epoch < cut.head.epoch,
      let next = cut.head.epochs.first(where: { $0.epoch > state.epoch }),
      next.firstSequence.rawValue <= state.sequence.rawValue + 1
    else { throw diverged("the archive and this store went on separately") }
    if state.sequence < next.firstSequence { return (state, isHead) }
    if configuration.mustContinueNewestState {
      throw diverged("the archive has gone on since this store was restored")
    }
    return (try await earlierState(than: state.position, before: next.firstSequence, head), false)
  }

  /// Returns a state of the archive from before an operation. A whole copy follows, so any such
  /// state will do: one of the last commits, or else one of a checkpoint.
  ///
  /// - Complexity: O(log checkpoints) requests.
  private func earlierState(
    than position: UInt64, before first: SequenceNumber, _ head: ArchiveHead
  ) async throws(ArchiveError) -> ArchivedState {
    var position = position
    for _ in 0..<Self.searchedCommits {
      guard position > 1, let header = try await objects.header(position - 1) else { break }
      position -= 1
      if header.endsAtCut, header.instanceID == nil, header.lastSequence < first {
        return ArchivedState(header)
      }
    }
    var (number, step) = (head.checkpoint?.number ?? 0, UInt64(1))
    while number > 0, let record = try await objects.checkpoint(number) {
      if record.sequence < first {
        let header = try await objects.header(record.position)
        let isOfCheckpoint = header?.nonce == record.commitNonce
        return isOfCheckpoint ? header.map { ArchivedState($0) } ?? .empty : ArchivedState(record)
      }
      number -= min(number, step)
      step *= 2
    }
    return .empty
  }

  /// The commits that are read to find an earlier state, before checkpoints are.
  private static let searchedCommits = 32

  /// Returns the newest state of the archive at or below a position, and whether nothing lies in
  /// between that a state was left for.
  private func newestCut(
    at position: UInt64, _ head: ArchiveHead
  ) async throws(ArchiveError) -> (ArchivedState, isHead: Bool) {
    var position = position
    var isHead = true
    while position > 0 {
      guard let header = try await objects.header(position) else {
        throw ArchiveError(
          .stateUnavailable,
          "the state that the last writer continued was removed by a cleaning; "
            + "restore the newest state into a new directory, and attach that store",
          object: objects.names.commit(position))
      }
      // The fence of a new life has a state only with a whole copy: in the commit that follows it,
      // or in a checkpoint. Without one, the state before the fence counts, as for a restore.
      let hasCopy =
        head.checkpoint?.commit.position == position
        && head.checkpoint?.commit.identity == header.nonce.identity
      if header.endsAtCut, header.instanceID == nil || hasCopy {
        return (ArchivedState(header), isHead)
      }
      isHead = isHead && header.kind == .fence && header.base.position == position - 1
      position -= 1
    }
    return (.empty, isHead)
  }

  /// Checks that this store's log has the place at which the archive's log ends, with the same
  /// bytes before it.
  private func check(
    _ place: LogPlace, of state: ArchivedState, _ head: ArchiveHead, _ cut: LogCut
  ) async throws(ArchiveError) {
    let known = cut.segments + retired.segments
    guard let segment = known.first(where: { $0.holds(place) }) else {
      // Compaction has replaced the segment, after the state. A copy of this directory that went on
      // by itself does not have the archive's last term, or it has written another segment with the
      // same number, or has not compacted since.
      let isWritten = known.contains {
        $0.identity.number == place.segment && $0.identity.epoch == place.epoch
      }
      let attachment: Manifest.Attachment?
      do throws(StoreError) { attachment = try await store.attachment() } catch {
        throw ArchiveError(error)
      }
      if !isWritten, let attachment, attachment.archiveID != objects.archiveID {
        throw ArchiveError(
          .diverged,
          "this store was last archived in another archive, and a compaction has replaced since "
            + "what would show that it continues this one; give the store a new archive",
          object: objects.names.root)
      }
      guard !isWritten, cut.head.compactedThrough >= state.sequence,
        attachment?.archiveID == objects.archiveID,
        attachment?.term == state.term || attachment?.earlierTerm == state.term
      else {
        throw diverged("the archive's newest operations are of another copy of this store")
      }
      return
    }
    guard let start = Int(exactly: place.offset), start <= segment.lengthBytes else {
      throw olderCopy(state, cut)
    }
    let last = try await lastBytes(before: place, state, head)
    let own: [UInt8]
    do throws(StoreError) {
      own = try await store.runBlocking { () throws(StoreError) in
        try segment.withBytes(start - last.count..<start) { (bytes) throws(StoreError) in
          Array(bytes)
        }
      }
    } catch {
      throw ArchiveError(error)
    }
    guard own == last else {
      throw diverged("the archive's newest operations are of another copy of this store")
    }
  }

  /// Returns bytes of the log that end at a place, from the newest commit that has any, or from the
  /// newest checkpoint.
  private func lastBytes(
    before place: LogPlace, _ state: ArchivedState, _ head: ArchiveHead
  ) async throws(ArchiveError) -> [UInt8] {
    var position = state.position
    let first = head.checkpoint?.commit.position ?? 0
    while position > first, let header = try await objects.header(position) {
      if let index = header.pieces.firstIndex(where: { $0.end == place }),
        let commit = try await objects.commit(position)
      {
        return Array(commit.rawBytes[commit.header.pieceRanges[index]])
      }
      if header.kind == .gap { break }
      position = header.kind == .fence ? header.base.position : position - 1
    }
    guard let number = head.checkpoint?.number,
      let record = try await objects.checkpoint(number)
    else { return [] }
    let copy: CheckpointContents.Segment?
    do throws(ArchiveError) {
      copy = try await objects.contents(record.contents).segments.first {
        $0.number == place.segment && $0.epoch == place.epoch && $0.salt == place.salt
          && $0.lengthBytes >= place.offset
      }
    } catch {
      guard error.code == .damaged || error.code == .stateUnavailable else { throw error }
      return []
    }
    // Without a copy of the segment its salt is all there is to compare.
    guard let copy else { return [] }
    let end = Int(place.offset)
    return try await ArchivedSegment(copy, objects).bytes(max(0, end - Self.comparedBytes)..<end)
  }

  /// The bytes of a checkpoint's segment that are compared with the store's log.
  private static let comparedBytes = 4096

  private func olderCopy(_ state: ArchivedState, _ cut: LogCut) -> ArchiveError {
    diverged(
      "the archive ends at operation \(state.sequence) and this store at \(cut.sequence): "
        + "this is an older copy of the store, or its disk has lost operations")
  }

  private func diverged(_ reason: String) -> ArchiveError {
    ArchiveError(
      .diverged,
      "\(reason); if another machine writes to the archive, let this store follow it "
        + "('moraine rejoin STORE ARCHIVE'); if none does, restore the archive into a new "
        + "directory ('moraine restore ARCHIVE NEW'; 'moraine archive STORE ARCHIVE --adopt' also "
        + "keeps this one under another name, and fences the last writer), or give this store a "
        + "new archive",
      object: objects.names.root)
  }
}

extension Promotion {
  /// The life that the follower begins after a state.
  func life(after highest: UInt64, _ cut: LogCut) -> Manifest.Epoch {
    Manifest.Epoch(
      epoch: max(highest, cut.head.epoch) + 1,
      firstSequence: SequenceNumber(rawValue: cut.sequence.rawValue + 1), instanceID: instanceID)
  }
}

extension Manifest {
  /// The present life of the store.
  fileprivate var life: Epoch {
    let first = epochs.last { $0.epoch == epoch }?.firstSequence
    return Epoch(
      epoch: epoch, firstSequence: first ?? SequenceNumber(rawValue: 1), instanceID: instanceID)
  }
}

extension LogCut {
  /// Whether the log of this store goes on where that of the archive ends, in a life of the store.
  ///
  /// - Parameter base: the newest state of the archive, which this store continues.
  fileprivate func continues(_ base: ArchivedState, in life: Manifest.Epoch) -> Bool {
    if base.position == 0 { return false }
    if base.epoch == life.epoch { return true }
    // A store that was restored to an operation within a commit has not all bytes of it.
    guard let place = base.logEnd, life.firstSequence.rawValue == base.sequence.rawValue + 1
    else { return false }
    return segments.contains { $0.holds(place) && place.offset <= UInt64($0.lengthBytes) }
  }
}
