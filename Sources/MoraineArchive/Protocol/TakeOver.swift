/// The machine by which a writer takes over an archive: a value without I/O. It gives one request
/// at a time and receives the answer.
///
/// 1. Create the next free term.
/// 2. Find the newest checkpoint, then the last commit above it, then ask for a newer checkpoint:
///    only when there is none, the commits above the checkpoint were never removed, and what was
///    read is the history.
/// 3. The caller decides how its store relates to the head and offers a fence.
/// 4. Create the fence after the head. Another commit there: begin at step 2 again.
/// 5. Ask for the next term, and for a newer checkpoint once more.
///
/// When more than the stall limit lies between the request that created the term and the answer
/// that attaches the writer, the caller calls ``stalledTooLong()`` instead of passing the answer.
package struct TakeOver: Hashable, Sendable {
  package enum Action: Hashable, Sendable {
    /// Send the request and pass its answer to ``TakeOver/receive(_:)``.
    case request(ArchiveRequest)
    /// Compare the local store with the head, then call ``TakeOver/fence(_:)``. The decision can
    /// take any time. The action may come again, with another head.
    case headFound(ArchiveHead)
    /// The next term exists: another writer takes over. The machine has ended.
    case fenced
    /// The fence is acknowledged. The machine has ended.
    case attached(ShippingState)
  }

  private enum Phase: Hashable {
    case ready
    case creatingTerm(Gallop)
    case searchingCheckpoint(CheckpointSearch)
    case searchingHead(Gallop)
    case checkingCheckpoint
    case deciding
    case creatingFence(CommitIdentity)
    case comparingFence(CommitIdentity)
    case checkingTerm(CommitIdentity)
    case checkingCheckpointAgain(CommitIdentity)
    case ended
  }

  /// The term of this writer; zero before the machine has created one. It only grows.
  package private(set) var term: UInt64 = 0
  private var phase = Phase.ready
  private var checkpoint: CheckpointSummary?
  /// The last commit that is known: of the newest checkpoint, or above it. Nil before the search.
  private var head: CommitReference?
  private var hints: ArchiveHints
  private let rules: ProtocolRules

  package init(_ hints: ArchiveHints = ArchiveHints(), rules: ProtocolRules = .all) {
    (self.hints, self.rules) = (hints, rules)
  }

  /// Returns the first request.
  package mutating func begin() -> Action {
    precondition(phase == .ready, "the machine has begun")
    let gallop = Gallop(above: 0, hint: hints.term)
    hints = ArchiveHints(checkpoint: hints.checkpoint, position: hints.position)
    return createTerm(gallop)
  }

  /// Returns the action that follows the answer to the last request.
  package mutating func receive(_ answer: ArchiveAnswer) -> Action {
    if answer == .unknown { return .request(request) }
    switch phase {
    case .creatingTerm(let gallop): return receiveTerm(answer, gallop)
    case .searchingCheckpoint(let search): return receiveCheckpoint(answer, search)
    case .searchingHead(let gallop): return receiveCommit(answer, gallop)
    case .checkingCheckpoint:
      return receiveCheckpointCheck(answer) { $0.decide() }
    case .creatingFence(let identity): return receiveFence(answer, identity)
    case .comparingFence(let identity): return receiveComparison(answer, identity)
    case .checkingTerm(let identity): return receiveTermCheck(answer, identity)
    case .checkingCheckpointAgain(let identity):
      return receiveCheckpointCheck(answer) { $0.attach(identity) }
    case .ready, .deciding, .ended: preconditionFailure("no request is open")
    }
  }

  /// Continues with the fence that the caller has made for the head of the last `.headFound`.
  ///
  /// - Parameter identity: a new identity in each call.
  package mutating func fence(_ identity: CommitIdentity) -> Action {
    precondition(phase == .deciding, "no head was found")
    precondition(identity != .none && identity != head?.identity, "the identity is not new")
    return become(.creatingFence(identity))
  }

  /// Begins again with a higher term: the caller does not know how long ago the term was created,
  /// so the object of the next term may have come and expired.
  package mutating func stalledTooLong() -> Action {
    precondition(phase != .ready && phase != .ended, "the machine does not run")
    return createTerm(Gallop(above: term))
  }

  // MARK: The request of each phase

  private var request: ArchiveRequest {
    switch phase {
    case .creatingTerm(let gallop):
      let number = gallop.probeOrEnd
      // Numbers that are not next to an existing term are read, so that terms have no gaps.
      let canCreate = number - gallop.found <= 1 || !rules.contains(.contiguousTerms)
      return canCreate ? .createTerm(number) : .readTerm(number)
    case .searchingCheckpoint(let search):
      guard let request = search.request else { preconditionFailure("the search has ended") }
      return request
    case .searchingHead(let gallop): return .readCommit(gallop.probeOrEnd)
    case .creatingFence(let identity):
      return .createCommit(position: fencePosition, identity: identity)
    case .comparingFence: return .readCommit(fencePosition)
    case .checkingTerm: return .readTerm(term + 1)
    case .checkingCheckpoint, .checkingCheckpointAgain:
      return .readCheckpoint((checkpoint?.number ?? 0) + 1)
    case .ready, .deciding, .ended: preconditionFailure("no request is open")
    }
  }

  private var fencePosition: UInt64 { (head?.position ?? 0) + 1 }

  private mutating func become(_ phase: Phase) -> Action {
    self.phase = phase
    return .request(request)
  }

  // MARK: Term

  private mutating func createTerm(_ gallop: Gallop) -> Action {
    head = nil
    return become(.creatingTerm(gallop))
  }

  private mutating func receiveTerm(_ answer: ArchiveAnswer, _ gallop: Gallop) -> Action {
    var gallop = gallop
    switch answer {
    case .created:
      assert(gallop.probeOrEnd > term, "a writer's terms grow")
      term = gallop.probeOrEnd
      return searchCheckpoint(CheckpointSearch(hints, above: checkpoint, rules))
    case .exists: gallop.recordExisting()
    case .absent: gallop.recordAbsent()
    default: preconditionFailure("no answer to a request for a term: \(answer)")
    }
    return createTerm(gallop)
  }

  // MARK: Head

  private mutating func searchCheckpoint(_ search: CheckpointSearch) -> Action {
    guard search.request == nil else {
      head = nil
      return become(.searchingCheckpoint(search))
    }
    checkpoint = search.newest
    head = checkpoint?.commit
    return searchHead(Gallop(above: head?.position ?? 0, hint: hints.position))
  }

  private mutating func receiveCheckpoint(
    _ answer: ArchiveAnswer, _ search: CheckpointSearch
  ) -> Action {
    var search = search
    search.receive(answer)
    return searchCheckpoint(search)
  }

  private mutating func searchHead(_ gallop: Gallop) -> Action {
    guard gallop.probe == nil else { return become(.searchingHead(gallop)) }
    assert(gallop.found == head?.position ?? 0, "the last commit that exists was read")
    guard rules.contains(.checkpointCheckBeforeFence) else { return decide() }
    return become(.checkingCheckpoint)
  }

  private mutating func receiveCommit(_ answer: ArchiveAnswer, _ gallop: Gallop) -> Action {
    var gallop = gallop
    switch answer {
    case .commit(let summary):
      precondition(summary.commit.position == gallop.probe, "the answer is of another commit")
      gallop.recordExisting()
      head = summary.commit
    case .absent: gallop.recordAbsent()
    default: preconditionFailure("no answer to the read of a commit: \(answer)")
    }
    return searchHead(gallop)
  }

  /// Searches the head again when there is a newer checkpoint, and goes on otherwise.
  private mutating func receiveCheckpointCheck(
    _ answer: ArchiveAnswer, goOn: (inout TakeOver) -> Action
  ) -> Action {
    switch answer {
    case .checkpoint(let newer): return searchCheckpoint(CheckpointSearch(above: newer))
    case .absent: return goOn(&self)
    default: preconditionFailure("no answer to the read of a checkpoint: \(answer)")
    }
  }

  private mutating func decide() -> Action {
    if let head, head.term >= term { return createTerm(Gallop(above: head.term)) }
    return offerHead()
  }

  private mutating func offerHead() -> Action {
    phase = .deciding
    return .headFound(ArchiveHead(term: term, commit: head, checkpoint: checkpoint))
  }

  // MARK: Fence

  private mutating func receiveFence(
    _ answer: ArchiveAnswer, _ identity: CommitIdentity
  ) -> Action {
    switch answer {
    case .created: return checkTerm(identity)
    case .exists: return become(.comparingFence(identity))
    default: preconditionFailure("no answer to the creation of a commit: \(answer)")
    }
  }

  private mutating func receiveComparison(
    _ answer: ArchiveAnswer, _ identity: CommitIdentity
  ) -> Action {
    switch answer {
    case .commit(let summary) where rules.isOwn(summary, identity):
      return checkTerm(identity)
    case .commit(let summary) where !rules.contains(.searchAfterConflict):
      head = summary.commit
      return offerHead()
    case .commit, .absent:
      return searchCheckpoint(CheckpointSearch(hints, above: checkpoint, rules))
    default: preconditionFailure("no answer to the read of a commit: \(answer)")
    }
  }

  private mutating func checkTerm(_ identity: CommitIdentity) -> Action {
    guard rules.contains(.termCheckAfterCommit) else { return checkCheckpointAgain(identity) }
    return become(.checkingTerm(identity))
  }

  private mutating func receiveTermCheck(
    _ answer: ArchiveAnswer, _ identity: CommitIdentity
  ) -> Action {
    switch answer {
    case .absent: return checkCheckpointAgain(identity)
    case .exists:
      phase = .ended
      return .fenced
    default: preconditionFailure("no answer to the read of a term: \(answer)")
    }
  }

  private mutating func checkCheckpointAgain(_ identity: CommitIdentity) -> Action {
    guard rules.contains(.checkpointCheckAfterFence) else { return attach(identity) }
    return become(.checkingCheckpointAgain(identity))
  }

  private mutating func attach(_ identity: CommitIdentity) -> Action {
    let fence = CommitReference(position: fencePosition, term: term, identity: identity)
    phase = .ended
    return .attached(ShippingState(term: term, head: fence, checkpoint: checkpoint))
  }
}

extension CheckpointSearch {
  /// The search of a writer, which goes on above a checkpoint that it has read.
  fileprivate init(
    _ hints: ArchiveHints, above known: CheckpointSummary?, _ rules: ProtocolRules
  ) {
    let believesHint = !rules.contains(.numberedCheckpoints)
    self.init(
      above: believesHint ? nil : known, hint: hints.checkpoint, believesHint: believesHint)
  }
}
