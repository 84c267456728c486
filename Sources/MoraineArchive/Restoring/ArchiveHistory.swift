import MoraineEngine
import MoraineFormat

/// The part of an archive's history that leads to a moment: a checkpoint, and the commits after it.
struct ArchiveHistory: Sendable {
  let objects: ArchiveObjects
  /// The checkpoint from which the history was read; nil for the beginning.
  private(set) var checkpoint: CheckpointRecord?
  /// The commits after the checkpoint, by position.
  private(set) var headers: [UInt64: CommitHeader] = [:]
  /// The highest epoch of a life of the store that the archive has. A restored store gets a higher
  /// one, also when it is not the first that was restored to its moment.
  private(set) var highestEpoch: UInt64 = 0
  /// A position that the hint says to have existed.
  private var hintedPosition: UInt64 = 0
  /// The position of the wanted state.
  private(set) var end: UInt64 = 0
  /// The operation at which the wanted state ends; nil for the end of the commit.
  private(set) var rewindsTo: SequenceNumber?

  private init(_ objects: ArchiveObjects) { self.objects = objects }

  /// The lives of the store that began after the checkpoint, or after the last whole copy, and lead
  /// to the wanted state. A life that ended at its fence is none of them.
  var epochs: [Manifest.Epoch] {
    var lives: [Manifest.Epoch] = []
    var position = end
    while position > checkpoint?.position ?? 0, let header = headers[position],
      header.contents == nil
    {
      if let life = header.life { lives.append(life) }
      position = header.kind == .fence ? header.base.position : position - 1
    }
    return lives.reversed()
  }

  /// Returns the place of the wanted state, for a store that goes on from there.
  func following() async throws(ArchiveError) -> Manifest.Following {
    precondition(rewindsTo == nil, "a follower begins at the end of a commit")
    var reference = headers[end]?.reference
    if reference == nil, let checkpoint { reference = try await objects.summary(checkpoint).commit }
    guard let reference, reference.position == end else {
      throw unavailable("the commit of the newest state is missing")
    }
    return reference.following(objects.archiveID, checkpoint: checkpoint?.number ?? 0)
  }

  /// Reads the history that leads to a moment.
  ///
  /// - Throws: `.stateUnavailable` when the archive does not hold the moment.
  static func read(
    _ objects: ArchiveObjects, _ point: RestorePoint
  ) async throws(ArchiveError) -> ArchiveHistory {
    var history = ArchiveHistory(objects)
    try await history.findCheckpoint(point)
    let target = try await history.target(point)
    try await history.readCommits(to: target)
    return history
  }

  /// Returns the newest checkpoint; nil when there is none.
  static func newestCheckpoint(
    _ objects: ArchiveObjects
  ) async throws(ArchiveError) -> CheckpointRecord? {
    try await newestCheckpoint(objects, try await objects.hint())
  }

  private static func newestCheckpoint(
    _ objects: ArchiveObjects, _ hint: HeadHint?
  ) async throws(ArchiveError) -> CheckpointRecord? {
    var search = CheckpointSearch(above: nil, hint: hint?.checkpoint ?? 0)
    while let request = search.request { search.receive(try await objects.answer(request)) }
    guard let newest = search.newest else { return nil }
    return try await objects.checkpoint(newest.number)
  }

  private mutating func findCheckpoint(_ point: RestorePoint) async throws(ArchiveError) {
    let hint = try await objects.hint()
    hintedPosition = min(hint?.position ?? 0, ArchiveLimits.position)
    checkpoint = try await Self.newestCheckpoint(objects, hint)
    highestEpoch = max(checkpoint?.epoch ?? 0, try await epochOfTheHead())
    while let found = checkpoint {
      let isEarlyEnough =
        switch point.kind {
        case .latest: true
        case .sequence(let sequence): found.sequence <= sequence
        case .time(let milliseconds): found.milliseconds <= milliseconds
        case .position(let position): found.position <= position
        }
      // A cleaning may have removed the contents of a checkpoint, and not the commits before it.
      if isEarlyEnough {
        if point.kind == .latest { return }
        if try await objects.exists(objects.names.data(found.contents.name)) { return }
      }
      checkpoint = found.number > 1 ? try await objects.checkpoint(found.number - 1) : nil
    }
  }

  /// Returns the highest epoch of the commits by which the last one is found. An epoch falls only
  /// after a life that ended at its fence: the life before has gone on. The reading of the commits
  /// finds the epoch of such a life.
  ///
  /// - Complexity: O(log commits) requests.
  private func epochOfTheHead() async throws(ArchiveError) -> UInt64 {
    var search = Gallop(above: checkpoint?.position ?? 0, hint: hintedPosition)
    var epoch: UInt64 = 0
    while let position = search.probe {
      do throws(ArchiveError) {
        guard let header = try await objects.header(position) else {
          search.recordAbsent()
          continue
        }
        epoch = max(epoch, header.epoch)
      } catch {
        // A damaged commit is no reason not to restore an earlier moment.
        guard error.code == .damaged || error.code == .newerFormat else { throw error }
      }
      search.recordExisting()
    }
    return epoch
  }

  /// Returns the position to read to; nil for the newest one.
  private mutating func target(_ point: RestorePoint) async throws(ArchiveError) -> UInt64? {
    switch point.kind {
    case .latest: return nil
    case .position(let position):
      guard position > 0 else { throw unavailable("positions begin at 1") }
      return position
    case .sequence(let sequence):
      return try await target(sequence)
    case .time(let milliseconds):
      var last = checkpoint?.position
      let (_, end) = try await scan { header in
        if header.milliseconds > milliseconds { return true }
        // The fence of a new life is no state by itself.
        if header.endsAtCut, header.instanceID == nil { last = header.position }
        return false
      }
      guard let last else {
        try await checkFollowed(upTo: end)
        throw unavailable("the archive begins after that moment")
      }
      // Reading the commits up to a later position checks that they are all there.
      if last == checkpoint?.position, checkpoint?.milliseconds != milliseconds {
        try await checkFollowed(upTo: last + 1)
      }
      return last
    }
  }

  /// Returns the position of the first state that has an operation, in the history of the newest
  /// state: an earlier life of the store, which a restore has left, may have the number too.
  ///
  /// - Complexity: a request for each commit after the checkpoint, up to the result. Where another
  ///   life has begun after the first commit with the number, also the requests of
  ///   ``ArchiveLives``.
  private mutating func target(_ sequence: SequenceNumber) async throws(ArchiveError) -> UInt64 {
    var lives: ArchiveLives?
    if let checkpoint, checkpoint.sequence == sequence {
      if checkpoint.epoch < highestEpoch {
        lives = try await readLives(for: sequence, at: checkpoint.position)
      }
      if lives?.have(checkpoint.epoch, through: sequence) ?? true { return checkpoint.position }
    }
    var (found, end) = try await scan { $0.endsAtCut && $0.lastSequence >= sequence }
    if let first = found, first.epoch < highestEpoch {
      if lives == nil { lives = try await readLives(for: sequence, at: first.position) }
      (found, end) = try await scan(from: first.position) { header in
        header.endsAtCut && header.lastSequence >= sequence
          && lives?.have(header.epoch, through: sequence) ?? true
      }
      if found == nil {
        try await checkFollowed(upTo: end)
        throw unavailable(
          "the newest history of the archive does not reach operation \(sequence); the commit at "
            + "position \(first.position) has it, in a life of the store that a restore has left: "
            + "see '--position'")
      }
    }
    guard let found else {
      try await checkFollowed(upTo: end)
      let hint =
        highestEpoch > 1
        ? "; a life of the store that a restore has left may have it: '--position' restores its "
          + "states, and 'moraine archive-info --checkpoints' lists some of them" : ""
      throw unavailable("the archive does not reach operation \(sequence)\(hint)")
    }
    if found.lastSequence > sequence { rewindsTo = sequence }
    return found.position
  }

  /// Reads the lives that lead to the newest state.
  ///
  /// - Parameter position: the first commit with the operation, which an error names.
  private func readLives(
    for sequence: SequenceNumber, at position: UInt64
  ) async throws(ArchiveError) -> ArchiveLives {
    do throws(ArchiveError) {
      return try await ArchiveLives(objects, highestEpoch: highestEpoch)
    } catch {
      guard error.code == .damaged || error.code == .stateUnavailable else { throw error }
      throw ArchiveError(
        error.code,
        "\(error.message). The archive has operation \(sequence) at position \(position); whether "
          + "that is the history of its newest state cannot be read: see '--position'",
        object: error.object, offset: error.offset)
    }
  }

  /// Checks that the commit at a position was not removed: before the next checkpoint each commit
  /// after this one existed.
  private func checkFollowed(upTo position: UInt64) async throws(ArchiveError) {
    let later = try await objects.checkpoint((checkpoint?.number ?? 0) + 1)
    guard let later, position <= later.position else { return }
    var summary: CheckpointSummary?
    if let checkpoint { summary = try await objects.summary(checkpoint) }
    var reader = HistoryReader(summary, target: position)
    var action = reader.poll(.max)
    while case .request(let request) = action {
      action = reader.receive(try await objects.answer(request))
    }
    if case .unavailable = action { throw try await removed() }
  }

  /// Returns the first commit after the checkpoint that fulfils a condition, and its position; nil
  /// when none does, and the first position without a commit.
  ///
  /// - Parameter start: the first position; nil for the one after the checkpoint.
  private func scan(
    from start: UInt64? = nil, _ condition: (CommitHeader) -> Bool
  ) async throws(ArchiveError) -> (CommitHeader?, UInt64) {
    var position = start ?? (checkpoint?.position ?? 0) + 1
    while let header = try await objects.header(position) {
      if condition(header) { return (header, position) }
      position += 1
    }
    return (nil, position)
  }

  private mutating func readCommits(to target: UInt64?) async throws(ArchiveError) {
    end = checkpoint?.position ?? 0
    if let target, target == end { return }
    var summary: CheckpointSummary?
    if let checkpoint { summary = try await objects.summary(checkpoint) }
    var reader = HistoryReader(summary, target: target)
    var action = reader.poll(.max)
    while true {
      switch action {
      case .request(let request):
        let answer = try await answer(request)
        action = reader.receive(answer)
      case .apply(let range):
        end = range.upperBound
        if target == end { return }
        // What comes next ends the history, or contradicts it.
        action = reader.poll(.max)
      case .rebase(let newer):
        checkpoint = try await objects.checkpoint(newer.number)
        end = newer.commit.position
        if target == end { return }
        action = reader.poll(.max)
      case .upToDate:
        if target == nil { try await checkEnd() }
        return try settle(target)
      case .damaged(let position, let damage):
        throw ArchiveError(
          .damaged, "the commit contradicts the one before it (\(damage))",
          object: objects.names.commit(position))
      case .unavailable: throw try await removed()
      }
    }
  }

  /// Checks that the history does not end because a commit is lost, as far as the hint knows.
  private func checkEnd() async throws(ArchiveError) {
    guard hintedPosition > end, hintedPosition <= ArchiveLimits.position,
      try await objects.header(hintedPosition) != nil
    else { return }
    throw ArchiveError(
      .damaged,
      "the commit is missing, and later ones exist; restore '--position \(end)' for the state "
        + "before it", object: objects.names.commit(end + 1))
  }

  private mutating func answer(
    _ request: ArchiveRequest
  ) async throws(ArchiveError) -> ArchiveAnswer {
    guard case .readCommit(let position) = request else {
      return try await objects.answer(request)
    }
    guard let header = try await objects.header(position) else { return .absent }
    headers[position] = header
    highestEpoch = max(highestEpoch, header.epoch)
    return .commit(header.summary)
  }

  /// Goes back to the last commit that ends at a cut, where the newest state is wanted.
  private mutating func settle(_ target: UInt64?) throws(ArchiveError) {
    if let target {
      guard end == target else {
        throw unavailable("the archive ends at position \(end), before \(target)")
      }
      return
    }
    // A fence of a new life is followed by a whole copy; without it, the last life counts.
    while let header = headers[end], !header.endsAtCut || header.instanceID != nil { end -= 1 }
    if end == 0 { throw unavailable("the archive is empty") }
  }

  /// Returns the error for a moment whose commits were removed by a cleaning.
  private func removed() async throws(ArchiveError) -> ArchiveError {
    var older = ""
    if let checkpoint, try await objects.exists(objects.names.data(checkpoint.contents.name)) {
      older =
        "the nearest older state that can be restored is that of position \(checkpoint.position); "
    }
    return unavailable(
      "a cleaning has removed the commits of this moment; \(older)"
        + "'moraine archive-info --checkpoints' lists all states that can be restored")
  }

  private func unavailable(_ reason: String) -> ArchiveError {
    ArchiveError(.stateUnavailable, reason, object: objects.names.root)
  }
}
