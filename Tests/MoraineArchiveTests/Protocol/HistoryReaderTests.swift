import MoraineArchive
import Testing

/// The machine of a follower and of a restore.
@Suite struct HistoryReaderTests {
  private func run(
    _ machine: inout HistoryReader, _ archive: inout ScriptedArchive, count: UInt64 = 10
  ) -> HistoryReader.Action {
    var action = machine.poll(count)
    while case .request(let request) = action {
      #expect(machine.receive(.unknown) == action, "the same request again")
      action = machine.receive(archive.answer(request))
    }
    return action
  }

  private func broken(
    _ position: UInt64, named: UInt64? = nil, term: UInt64 = 1, previous: UInt64? = nil
  ) -> CommitSummary {
    let commit = CommitReference(
      position: named ?? position, term: term, identity: ScriptedArchive.identity(position))
    return CommitSummary(
      commit, previous: ScriptedArchive.identity(previous ?? position - 1))
  }

  @Test func commitsAreHandedOnAfterTheCheckpointCheck() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive) == .apply(1...3))
    #expect(
      archive.requests == [
        .readCommit(1), .readCommit(2), .readCommit(3), .readCommit(4), .readCheckpoint(1),
      ])
    #expect(machine.applied == archive.commit(3).commit)
    #expect(run(&machine, &archive) == .upToDate)
    #expect(archive.requests.suffix(2) == [.readCommit(4), .readCheckpoint(1)])
  }

  @Test func pollsEndAtTheirLimit() {
    var archive = ScriptedArchive(terms: 1, commits: 5)
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive, count: 2) == .apply(1...2))
    #expect(run(&machine, &archive, count: 2) == .apply(3...4))
    #expect(run(&machine, &archive, count: 2) == .apply(5...5))
    #expect(run(&machine, &archive, count: 2) == .upToDate)
  }

  @Test func readersBeginAboveTheirCheckpoint() {
    var archive = ScriptedArchive(terms: 1, commits: 5, checkpoints: [3])
    var machine = HistoryReader(archive.checkpoint(1))
    #expect(run(&machine, &archive) == .apply(4...5))
    #expect(archive.requests.first == .readCommit(4))
    #expect(archive.requests.last == .readCheckpoint(2))
  }

  @Test func newerCheckpointsDiscardTheCommitsThatWereRead() {
    var archive = ScriptedArchive(
      terms: 1, commits: 9000, checkpoints: (1...1000).map { 8 * $0 })
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive) == .rebase(archive.checkpoint(1000)))
    // Ten commits, and twice the bits of 1000 for the newest checkpoint.
    #expect(archive.requests.count <= 11 + 20)
    #expect(run(&machine, &archive, count: .max) == .apply(8001...9000))
  }

  @Test func removedCommitsLeadToTheNewestCheckpoint() {
    var archive = ScriptedArchive(terms: 1, commits: 0, commitTerm: 1, checkpoints: [4])
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive) == .rebase(archive.checkpoint(1)))
    #expect(machine.applied?.position == 4)
  }

  @Test func checkpointsAtOrBelowThePositionArePassed() {
    var archive = ScriptedArchive(terms: 1, commits: 6)
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive) == .apply(1...6))
    archive.checkpoints = [2, 6]
    archive.commits = 8
    #expect(run(&machine, &archive) == .apply(7...8))
    #expect(archive.requests.suffix(3) == [1, 2, 3].map(ArchiveRequest.readCheckpoint))
    archive.checkpoints = [2, 6, 7, 9]
    archive.commits = 9
    // Checkpoint 3 is not above the position. Checkpoint 4 is of a commit that was read.
    #expect(run(&machine, &archive) == .apply(9...9))
    #expect(machine.knownCheckpoint == 4)
    archive.checkpoints = [2, 6, 7, 9, 12]
    archive.commits = 11
    #expect(run(&machine, &archive) == .rebase(archive.checkpoint(5)))
  }

  @Test func damageIsReportedAfterTheCommitsBeforeIt() {
    let cases: [(CommitSummary, HistoryDamage)] = [
      (broken(3, previous: 1), .otherPrevious), (broken(3, named: 7), .otherPosition),
    ]
    for (summary, damage) in cases {
      var archive = ScriptedArchive(terms: 1, commits: 5)
      archive.others[3] = summary
      var machine = HistoryReader(nil)
      #expect(run(&machine, &archive) == .apply(1...2))
      #expect(run(&machine, &archive) == .damaged(position: 3, damage))
      #expect(machine.applied?.position == 2)
    }
  }

  @Test func termsThatFallAreDamage() {
    var archive = ScriptedArchive(terms: 2, commits: 2, commitTerm: 2)
    archive.others[2] = broken(2, term: 1)
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive) == .apply(1...1))
    #expect(run(&machine, &archive) == .damaged(position: 2, .termFell))
  }

  @Test func newerCheckpointsExplainDamage() {
    var archive = ScriptedArchive(terms: 1, commits: 5, checkpoints: [4])
    archive.others[1] = broken(1, previous: 3)
    var machine = HistoryReader(nil)
    #expect(run(&machine, &archive) == .rebase(archive.checkpoint(1)))
  }

  @Test func restoresOfOlderStatesReadOnToTheNextCheckpoint() {
    var archive = ScriptedArchive(terms: 1, commits: 20, checkpoints: [3, 12, 18])
    var machine = HistoryReader(archive.checkpoint(1), target: 7)
    #expect(run(&machine, &archive, count: .max) == .apply(4...7))
    #expect(archive.requests.last == .readCommit(12))
  }

  @Test func restoresAboveTheNewestCheckpointReadToTheTarget() {
    var archive = ScriptedArchive(terms: 1, commits: 20, checkpoints: [3])
    var machine = HistoryReader(archive.checkpoint(1), target: 7)
    #expect(run(&machine, &archive, count: .max) == .apply(4...7))
    #expect(archive.requests.suffix(2) == [.readCommit(7), .readCheckpoint(2)])
  }

  @Test func restoresWhoseChainDoesNotEndInTheCheckpointAreUnavailable() {
    // A late object of a fenced writer at position 6: its chain is right, the one after it is not.
    var archive = ScriptedArchive(terms: 1, commits: 20, checkpoints: [3, 8])
    let late = CommitReference(position: 6, term: 1, identity: CommitIdentity(high: 1, low: 1))
    archive.others[6] = CommitSummary(late, previous: ScriptedArchive.identity(5))
    var machine = HistoryReader(archive.checkpoint(1), target: 6)
    #expect(run(&machine, &archive, count: .max) == .unavailable(position: 4))
    // The chain is right, but the checkpoint is of another commit.
    archive = ScriptedArchive(terms: 1, commits: 6, checkpoints: [3, 6])
    let start = archive.checkpoint(1)
    let next = CheckpointSummary(number: 2, commit: late)
    machine = HistoryReader(start, target: 5)
    _ = machine.poll(.max)
    _ = machine.receive(.commit(archive.commit(4)))
    _ = machine.receive(.commit(archive.commit(5)))
    #expect(machine.receive(.checkpoint(next)) == .request(.readCommit(6)))
    #expect(machine.receive(.commit(archive.commit(6))) == .unavailable(position: 4))
  }

  @Test func restoresOfRemovedStatesAreUnavailable() {
    var archive = ScriptedArchive(terms: 1, commits: 4, checkpoints: [3, 12])
    var machine = HistoryReader(archive.checkpoint(1), target: 7)
    #expect(run(&machine, &archive, count: .max) == .unavailable(position: 4))
  }

  @Test func restoresGoOnFromACheckpointAtOrBelowTheTarget() {
    var archive = ScriptedArchive(terms: 1, commits: 20, checkpoints: [3, 6, 12])
    var machine = HistoryReader(archive.checkpoint(1), target: 7)
    #expect(run(&machine, &archive, count: .max) == .rebase(archive.checkpoint(2)))
    #expect(run(&machine, &archive, count: .max) == .apply(7...7))
  }
}
