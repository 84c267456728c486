/// The machine of a follower and of a restore, which read the history: a value without I/O.
///
/// A commit that was read may be a late object of a fenced writer, at a position whose commit was
/// removed below a newer checkpoint. Its chain can be right. So commits are handed on only when no
/// checkpoint above the reader's position exists after they were read, or when the commit of that
/// checkpoint is among them: then the chain of commits that ends there is the history.
///
/// A restore of an older state (``init(_:target:rules:)``) starts below checkpoints by intention.
/// There the chain is read on to the next checkpoint, and must end in that checkpoint's commit.
package struct HistoryReader: Hashable, Sendable {
  package enum Action: Hashable, Sendable {
    /// Send the request and pass its answer to ``HistoryReader/receive(_:)``.
    case request(ArchiveRequest)
    /// Apply the commits of the positions. They were read since the last
    /// ``HistoryReader/poll(_:)``.
    case apply(ClosedRange<UInt64>)
    /// Discard the commits that were read, and go on from the checkpoint.
    case rebase(CheckpointSummary)
    /// No commit follows.
    case upToDate
    /// An object of the history contradicts the object before it.
    case damaged(position: UInt64, HistoryDamage)
    /// Commits up to the target were removed.
    case unavailable(position: UInt64)
  }

  private enum Phase: Hashable {
    case idle
    case reading
    case checking
    case searching(CheckpointSearch)
    /// Reads on from `last` to the commit of the checkpoint.
    case closing(CheckpointSummary, last: CommitReference?)
  }

  /// The number of the newest checkpoint that is known to be at or below ``applied``; 0 for none.
  package var knownCheckpoint: UInt64 { checkpointNumber }

  /// The last commit that the caller has, or will have after `.apply` or `.rebase`.
  package private(set) var applied: CommitReference?
  /// The newest checkpoint that is known, at or below ``applied``.
  private var checkpointNumber: UInt64
  private var lastRead: CommitReference?
  /// The commits that a follower has read in this poll, one after the other.
  private var read: [CommitReference] = []
  /// The last position of this poll.
  private var limit: UInt64 = 0
  private var damage: HistoryDamage?
  /// Whether this poll asks for a newer checkpoint when it finds no commit.
  private var asksWhenIdle = true
  private var phase = Phase.idle
  private let target: UInt64?
  private let rules: ProtocolRules

  /// - Parameters:
  ///   - checkpoint: the checkpoint whose state the caller has; nil for the empty state.
  ///   - target: the position of a restore, at or above the checkpoint; nil for a follower.
  package init(
    _ checkpoint: CheckpointSummary?, target: UInt64? = nil, rules: ProtocolRules = .all
  ) {
    self.init(
      applied: checkpoint?.commit, checkpoint: checkpoint?.number ?? 0, target: target,
      rules: rules)
  }

  /// Goes on after a commit that the caller has applied.
  ///
  /// - Parameter checkpoint: the number of a checkpoint at or below the commit; zero for none.
  package init(
    applied: CommitReference?, checkpoint: UInt64, target: UInt64? = nil,
    rules: ProtocolRules = .all
  ) {
    precondition(target ?? .max >= applied?.position ?? 0, "the target is below the checkpoint")
    (self.applied, self.checkpointNumber, self.target) = (applied, checkpoint, target)
    self.rules = rules
  }

  /// Begins to read.
  ///
  /// - Parameters:
  ///   - count: the largest number of commits to hand on together.
  ///   - asksWhenIdle: whether to ask for a newer checkpoint also when no commit follows. A
  ///     follower whose commits were removed notices it only so; it need not ask each time.
  package mutating func poll(_ count: UInt64, asksWhenIdle: Bool = true) -> Action {
    self.asksWhenIdle = asksWhenIdle
    precondition(phase == .idle, "a request is open")
    precondition(count > 0, "a poll reads a commit")
    let start = position(of: applied)
    precondition(start < target ?? .max, "the target is reached")
    (lastRead, read) = (applied, [])
    damage = nil
    limit = min(target ?? .max, start > .max - count ? .max : start + count)
    return become(.reading)
  }

  /// Returns the action that follows the answer to the last request.
  package mutating func receive(_ answer: ArchiveAnswer) -> Action {
    if answer == .unknown { return .request(request) }
    switch (phase, answer) {
    case (.reading, .commit(let summary)): return receiveCommit(summary)
    case (.reading, .absent): return check()
    case (.checking, .checkpoint(let found)): return receiveCheckpoint(found)
    case (.checking, .absent): return finish()
    case (.searching(var search), .absent), (.searching(var search), .checkpoint):
      search.receive(answer)
      return searchNewest(search)
    case (.closing(let end, let last), .commit(let summary)):
      guard chainError(summary, after: last) == nil else { return stop(unavailable) }
      return close(end, last: summary.commit)
    case (.closing, .absent): return stop(unavailable)
    default: preconditionFailure("no answer to the open request: \(answer)")
    }
  }

  private var request: ArchiveRequest {
    switch phase {
    case .reading: return .readCommit(position(of: lastRead) + 1)
    case .checking: return .readCheckpoint(checkpointNumber + 1)
    case .searching(let search):
      guard let request = search.request else { preconditionFailure("the search has ended") }
      return request
    case .closing(_, let last): return .readCommit(position(of: last) + 1)
    case .idle: preconditionFailure("no request is open")
    }
  }

  private func position(of commit: CommitReference?) -> UInt64 { commit?.position ?? 0 }

  private var hasRead: Bool { position(of: lastRead) > position(of: applied) }

  private mutating func become(_ phase: Phase) -> Action {
    self.phase = phase
    return .request(request)
  }

  private mutating func stop(_ action: Action) -> Action {
    phase = .idle
    return action
  }

  // MARK: Commits

  private mutating func receiveCommit(_ summary: CommitSummary) -> Action {
    damage = chainError(summary, after: lastRead)
    if damage != nil { return check() }
    lastRead = summary.commit
    if target == nil { read.append(summary.commit) }
    return summary.commit.position < limit ? become(.reading) : check()
  }

  private func chainError(
    _ summary: CommitSummary, after last: CommitReference?
  ) -> HistoryDamage? {
    if summary.commit.position != position(of: last) + 1 { return .otherPosition }
    if summary.commit.term < last?.term ?? 0 { return .termFell }
    let isChained = summary.previous == last?.identity ?? .none
    return isChained || !rules.contains(.chainCheck) ? nil : .otherPrevious
  }

  // MARK: Checkpoints

  private mutating func check() -> Action {
    if hasRead, !rules.contains(.checkpointCheckBeforeApplying) { return finish() }
    if !hasRead, damage == nil, !asksWhenIdle { return finish() }
    return become(.checking)
  }

  private mutating func receiveCheckpoint(_ found: CheckpointSummary) -> Action {
    precondition(found.number == checkpointNumber + 1, "the answer is of another checkpoint")
    if found.commit.position <= position(of: applied) {
      // A checkpoint after this one can be above the commits that were read.
      checkpointNumber = found.number
      return rules.contains(.checkpointCheckToTheEnd) ? become(.checking) : finish()
    }
    guard let target else {
      guard contains(found.commit) else { return searchNewest(CheckpointSearch(above: found)) }
      checkpointNumber = found.number
      return rules.contains(.checkpointCheckToTheEnd) ? become(.checking) : finish()
    }
    if found.commit.position <= target { return rebase(found) }
    let hasAll = damage == nil && position(of: lastRead) == limit
    guard hasAll else { return stop(unavailable) }
    return rules.contains(.closedChain) ? close(found, last: lastRead) : finish()
  }

  /// Whether a commit is among those that were read.
  private func contains(_ commit: CommitReference) -> Bool {
    guard let first = read.first?.position, commit.position <= position(of: lastRead) else {
      return false
    }
    let found = read[Int(commit.position - first)]
    return found.identity == commit.identity || !rules.contains(.checkpointInChain)
  }

  private mutating func searchNewest(_ search: CheckpointSearch) -> Action {
    guard search.request == nil else { return become(.searching(search)) }
    guard let newest = search.newest else { preconditionFailure("the search began at one") }
    return rebase(newest)
  }

  private mutating func rebase(_ checkpoint: CheckpointSummary) -> Action {
    assert(checkpoint.commit.position > position(of: applied), "a rebase leads forward")
    (applied, checkpointNumber) = (checkpoint.commit, checkpoint.number)
    (lastRead, read, damage) = (applied, [], nil)
    return stop(.rebase(checkpoint))
  }

  // MARK: Restore of an older state

  private var unavailable: Action { .unavailable(position: position(of: applied) + 1) }

  /// Reads up to the commit of the checkpoint. Its identity is known, so the chain that ends there
  /// is the history.
  private mutating func close(_ end: CheckpointSummary, last: CommitReference?) -> Action {
    assert(position(of: last) <= end.commit.position, "the chain ends at the checkpoint")
    if position(of: last) < end.commit.position { return become(.closing(end, last: last)) }
    return last == end.commit ? finish() : stop(unavailable)
  }

  // MARK: End of a poll

  private mutating func finish() -> Action {
    let first = position(of: applied) + 1
    read = []
    if let lastRead, hasRead {
      applied = lastRead
      return stop(.apply(first...lastRead.position))
    }
    if let damage { return stop(.damaged(position: first, damage)) }
    return stop(.upToDate)
  }
}

/// A contradiction between a commit and the one before it.
package enum HistoryDamage: Hashable, Sendable {
  /// The commit names another position than the name of its object.
  case otherPosition
  /// The commit has a lower term than the one before.
  case termFell
  /// The commit names another commit as the one before.
  case otherPrevious
}
