import MoraineEngine
import MoraineFormat
import MoraineStorage

// Requests of the protocol's machines.
extension ArchiveWriter {
  /// Sends a request that creates an object. The machine repeats it when the answer is `.unknown`.
  ///
  /// - Throws: an error that repeating does not mend, or that lasts longer than the patience.
  func create(
    _ name: ObjectName, _ bytes: [UInt8], _ attempts: inout Attempts
  ) async throws(ArchiveError) -> ArchiveAnswer {
    do throws(ObjectStoreError) {
      switch try await objects.store.create(name, ObjectBody(bytes)) {
      case .created: return .created
      case .exists: return .exists
      }
    } catch {
      try await attempts.pause(after: error)
      return .unknown
    }
  }

  /// Sends the requests of the machine that ships until it needs no more, or throws; then the open
  /// request is sent again by the next call.
  func drive(
    _ first: Shipping.Action, creating bytes: [UInt8],
    keep: (isolated ArchiveWriter, Shipping.Action) -> Void
  ) async throws(ArchiveError) -> Shipping.Action {
    var action = first
    var attempts = Attempts(objects.patience)
    while case .request(let request) = action {
      keep(self, action)
      let sent = ContinuousClock.now
      let answer: ArchiveAnswer
      switch request {
      case .createCommit(let position, _):
        answer = try await create(objects.names.commit(position), bytes, &attempts)
      case .createCheckpoint(let checkpoint):
        answer = try await create(
          objects.names.checkpoint(checkpoint.number), bytes, &attempts)
      default: answer = try await objects.answer(request)
      }
      if case .readTerm = request, answer == .absent {
        // A later writer's term may have come and gone since the last look.
        if ContinuousClock.now - lastCheck > configuration.stallLimit {
          action = machine?.stalledTooLong() ?? action
          continue
        }
        lastCheck = sent
      }
      guard let next = machine?.receive(answer) else { preconditionFailure("no machine runs") }
      action = next
    }
    return action
  }

  /// Ships one commit.
  ///
  /// - Parameters:
  ///   - header: with its position, term and nonces.
  ///   - state: the state after the commit; nil for a commit that ends between two cuts.
  func ship(
    _ header: CommitHeader, _ raw: [UInt8], _ state: ArchivedState?
  ) async throws(ArchiveError) {
    precondition(pending == nil, "another commit is open")
    try objects.checkNumber(
      .createCommit(position: header.position, identity: header.nonce.identity))
    let bytes = Commit.encoded(header, rawBytes: raw)
    guard let action = machine?.ship(header.nonce.identity) else {
      preconditionFailure("no machine runs")
    }
    pending = PendingCommit(header: header, bytes: bytes, state: state, action: action)
    try await finishPending()
  }

  /// Sends the request of the open commit until it is acknowledged.
  func finishPending() async throws(ArchiveError) {
    guard let open = pending else { return }
    let last = try await drive(open.action, creating: open.bytes) { $0.pending?.action = $1 }
    switch last {
    case .acknowledged:
      pending = nil
      previous = open.header.nonce
      position = open.header.position
      logEnd = open.header.logEnd
      if open.header.kind == .gap { hasCopy = true }
      checkpointed.bytes += open.header.pieces.reduce(0) { $0 + Int($1.length) }
      if let state = open.state { became(state) }
    case .mustAttachAgain:
      (pending, machine) = (nil, nil)
      throw ArchiveError(
        .unavailable,
        "the program was stopped or idle for so long that the archive must be attached again")
    case .fenced:
      pending = nil
      throw fencedError
    default: preconditionFailure("a commit ends with \(last)")
    }
  }

  var fencedError: ArchiveError {
    ArchiveError(
      .fenced,
      "another machine, or another copy of this store, writes the archive since; "
        + "this store writes nothing more", object: objects.names.root)
  }

  /// Returns a header for the next commit.
  func nextHeader(
    _ kind: CommitHeader.Kind, _ cut: LogCut?, after last: SequenceNumber, epoch: UInt64
  ) -> CommitHeader {
    guard let term = machine?.state.term else { preconditionFailure("no machine runs") }
    var header = CommitHeader(
      kind, archiveID: objects.archiveID, position: position + 1, term: term, nonce: .random,
      previousNonce: previous, epoch: epoch,
      firstSequence: SequenceNumber(rawValue: last.rawValue + 1),
      lastSequence: cut?.sequence ?? last)
    header.milliseconds = configuration.milliseconds()
    if let cut {
      header.digest = cut.head.digest
      header.liveCount = UInt64(cut.count)
    }
    return header
  }
}

extension Nonce {
  /// A new name.
  static var random: Nonce { Nonce(low: SystemRandom.number() | 1, high: SystemRandom.number()) }
}
