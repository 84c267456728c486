import MoraineArchive

/// The objects of an archive without late requests, for tests of one machine.
struct ScriptedArchive {
  var terms: UInt64 = 0
  /// The commits 1...count.
  var commits: UInt64 = 0
  var commitTerm: UInt64 = 1
  /// The positions of the checkpoints.
  var checkpoints: [UInt64] = []
  /// Commits that differ from the usual ones.
  var others: [UInt64: CommitSummary] = [:]
  private(set) var requests: [ArchiveRequest] = []

  static func identity(_ position: UInt64) -> CommitIdentity {
    position == 0 ? .none : CommitIdentity(high: 7, low: position)
  }

  func commit(_ position: UInt64) -> CommitSummary {
    let commit = CommitReference(
      position: position, term: commitTerm, identity: Self.identity(position))
    return others[position] ?? CommitSummary(commit, previous: Self.identity(position - 1))
  }

  func checkpoint(_ number: UInt64) -> CheckpointSummary {
    CheckpointSummary(number: number, commit: commit(checkpoints[Int(number) - 1]).commit)
  }

  /// Answers the request. Creates change the archive.
  mutating func answer(_ request: ArchiveRequest) -> ArchiveAnswer {
    requests.append(request)
    switch request {
    case .createTerm(let term):
      if term <= terms { return .exists }
      precondition(term == terms + 1, "terms have no gap")
      terms = term
      return .created
    case .readTerm(let term): return term <= terms ? .exists : .absent
    case .createCommit(let position, let identity):
      if position <= commits { return .exists }
      let commit = CommitReference(position: position, term: terms, identity: identity)
      let previous = position == 1 ? .none : self.commit(position - 1).commit.identity
      others[position] = CommitSummary(commit, previous: previous)
      commits = position
      return .created
    case .readCommit(let position):
      return position <= commits ? .commit(commit(position)) : .absent
    case .createCheckpoint(let checkpoint):
      if checkpoint.number <= checkpoints.count { return .exists }
      checkpoints.append(checkpoint.commit.position)
      return .created
    case .readCheckpoint(let number):
      return number <= checkpoints.count ? .checkpoint(checkpoint(number)) : .absent
    }
  }
}
