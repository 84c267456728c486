/// The place of a writer that has taken over: the result of ``TakeOver``.
package struct ShippingState: Hashable, Sendable {
  package let term: UInt64
  /// The last acknowledged commit: the fence at first.
  package internal(set) var head: CommitReference
  /// The newest checkpoint that is known.
  package internal(set) var checkpoint: CheckpointSummary?

  package init(term: UInt64, head: CommitReference, checkpoint: CheckpointSummary?) {
    precondition(head.term == term, "the own fence is the head")
    (self.term, self.head, self.checkpoint) = (term, head, checkpoint)
  }
}

/// The machine of a writer that ships commits and creates checkpoints: a value without I/O. One
/// commit or checkpoint is under way at a time.
///
/// A commit is acknowledged when its object exists and the next term is absent after that. A create
/// whose answer was lost is repeated at the same position with the same bytes. After `.fenced` and
/// `.mustAttachAgain` the machine has ended.
///
/// The term's check is conclusive only while the object of the next term would still exist. So the
/// caller calls ``stalledTooLong()`` instead of passing an answer, when more than the stall limit
/// lies between two moments: the last conclusive check (of the fence, or of the last acknowledged
/// commit) was sent, and the answer that acknowledges a commit has arrived. The time in which a
/// writer is idle counts.
package struct Shipping: Hashable, Sendable {
  package enum Action: Hashable, Sendable {
    /// Send the request and pass its answer to ``Shipping/receive(_:)``.
    case request(ArchiveRequest)
    /// The commit is part of the history, and no later writer replaces it.
    case acknowledged(CommitReference)
    /// The checkpoint exists.
    case checkpointed(CheckpointSummary)
    /// A checkpoint at the same or a higher position exists. It can be the own one, whose answer
    /// was lost: compare the bytes.
    case superseded(CheckpointSummary)
    /// Another writer has taken over.
    case fenced
    /// The writer must begin a new ``TakeOver``. The open commit is not acknowledged.
    case mustAttachAgain
  }

  private enum Phase: Hashable {
    case idle
    case creating(CommitReference)
    case comparing(CommitReference)
    case checkingTerm(CommitReference)
    case creatingCheckpoint(CommitReference)
    case readingCheckpoint(CommitReference)
    case ended
  }

  package private(set) var state: ShippingState
  private var phase = Phase.idle
  private let rules: ProtocolRules

  package init(_ state: ShippingState, rules: ProtocolRules = .all) {
    (self.state, self.rules) = (state, rules)
  }

  /// Whether the machine takes a commit or a checkpoint.
  package var isIdle: Bool { phase == .idle }

  /// Ships a commit at the position after the head. The commit names the head's identity as the
  /// commit before.
  package mutating func ship(_ identity: CommitIdentity) -> Action {
    precondition(isIdle, "a request is open, or the machine has ended")
    precondition(identity != state.head.identity, "the identity is not new")
    let position = state.head.position + 1
    return become(
      .creating(CommitReference(position: position, term: state.term, identity: identity)))
  }

  /// Creates a checkpoint of an acknowledged commit, which may be far below the head.
  package mutating func checkpoint(_ commit: CommitReference) -> Action {
    precondition(isIdle, "a request is open, or the machine has ended")
    precondition(commit.position <= state.head.position, "the commit is not acknowledged")
    return createCheckpoint(commit)
  }

  /// Ends the machine, because the writer may not know its successor any more.
  package mutating func stalledTooLong() -> Action {
    precondition(phase != .ended, "the machine has ended")
    return end(.mustAttachAgain)
  }

  /// Returns the action that follows the answer to the last request.
  package mutating func receive(_ answer: ArchiveAnswer) -> Action {
    if answer == .unknown { return .request(request) }
    switch (phase, answer) {
    case (.creating(let commit), .created): return checkTerm(commit)
    case (.creating(let commit), .exists): return become(.comparing(commit))
    case (.comparing(let commit), .commit(let found)):
      return rules.isOwn(found, commit.identity) ? checkTerm(commit) : end(.fenced)
    case (.comparing(let commit), .absent):
      // The object was removed after the create had found it. The same create decides.
      return become(.creating(commit))
    case (.checkingTerm(let commit), .absent): return acknowledge(commit)
    case (.checkingTerm, .exists): return end(.fenced)
    case (.creatingCheckpoint(let commit), .created):
      let created = CheckpointSummary(number: nextCheckpoint, commit: commit)
      state.checkpoint = created
      phase = .idle
      return .checkpointed(created)
    case (.creatingCheckpoint(let commit), .exists): return become(.readingCheckpoint(commit))
    case (.readingCheckpoint(let commit), .checkpoint(let found)):
      return receiveCheckpoint(found, commit)
    case (.readingCheckpoint(let commit), .absent): return become(.creatingCheckpoint(commit))
    default: preconditionFailure("no answer to the open request: \(answer)")
    }
  }

  private var nextCheckpoint: UInt64 { (state.checkpoint?.number ?? 0) + 1 }

  private var request: ArchiveRequest {
    switch phase {
    case .creating(let commit):
      .createCommit(position: commit.position, identity: commit.identity)
    case .comparing(let commit): .readCommit(commit.position)
    case .checkingTerm: .readTerm(state.term + 1)
    case .creatingCheckpoint(let commit):
      .createCheckpoint(CheckpointSummary(number: nextCheckpoint, commit: commit))
    case .readingCheckpoint: .readCheckpoint(nextCheckpoint)
    case .idle, .ended: preconditionFailure("no request is open")
    }
  }

  private mutating func become(_ phase: Phase) -> Action {
    self.phase = phase
    return .request(request)
  }

  private mutating func end(_ action: Action) -> Action {
    phase = .ended
    return action
  }

  private mutating func checkTerm(_ commit: CommitReference) -> Action {
    guard rules.contains(.termCheckAfterCommit) else { return acknowledge(commit) }
    return become(.checkingTerm(commit))
  }

  private mutating func acknowledge(_ commit: CommitReference) -> Action {
    assert(commit.position == state.head.position + 1, "acknowledgements leave no gap")
    state.head = commit
    phase = .idle
    return .acknowledged(commit)
  }

  /// Positions of checkpoints grow with their numbers, so that a reader can stop at the first one
  /// above its position.
  private mutating func createCheckpoint(_ commit: CommitReference) -> Action {
    if let newest = state.checkpoint, newest.commit.position >= commit.position {
      phase = .idle
      return .superseded(newest)
    }
    return become(.creatingCheckpoint(commit))
  }

  private mutating func receiveCheckpoint(
    _ found: CheckpointSummary, _ commit: CommitReference
  ) -> Action {
    precondition(found.number == nextCheckpoint, "the answer is of another checkpoint")
    if found.commit.term > state.term { return end(.fenced) }
    state.checkpoint = found
    return createCheckpoint(commit)
  }
}
