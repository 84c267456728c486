import MoraineArchive
import Testing

/// The machine by which a writer takes over.
@Suite struct TakeOverTests {
  private let fence = CommitIdentity(high: 9, low: 1)
  private let otherFence = CommitIdentity(high: 9, low: 2)

  /// Answers requests up to the first other action.
  private func run(
    _ machine: inout TakeOver, _ action: TakeOver.Action, _ archive: inout ScriptedArchive
  ) -> TakeOver.Action {
    var action = action
    while case .request(let request) = action { action = machine.receive(archive.answer(request)) }
    return action
  }

  /// Returns a machine at the head of the archive.
  private func atHead(
    _ archive: inout ScriptedArchive, _ hints: ArchiveHints = ArchiveHints()
  ) -> (TakeOver, TakeOver.Action) {
    var machine = TakeOver(hints)
    let action = run(&machine, machine.begin(), &archive)
    return (machine, action)
  }

  @Test func emptyArchivesAreTakenOverAtPositionZero() {
    var archive = ScriptedArchive()
    var (machine, action) = atHead(&archive)
    let head = ArchiveHead(term: 1, commit: nil, checkpoint: nil)
    #expect(action == .headFound(head))
    #expect(head.position == 0 && head.previous == .none)
    action = run(&machine, machine.fence(fence), &archive)
    let commit = CommitReference(position: 1, term: 1, identity: fence)
    #expect(action == .attached(ShippingState(term: 1, head: commit, checkpoint: nil)))
    #expect(
      archive.requests == [
        .createTerm(1), .readCheckpoint(1), .readCommit(1), .readCheckpoint(1),
        .createCommit(position: 1, identity: fence), .readTerm(2), .readCheckpoint(1),
      ])
  }

  @Test func exactHintsNeedTenRequests() {
    var archive = ScriptedArchive(
      terms: 7, commits: 5000, commitTerm: 7, checkpoints: [3000, 4000])
    var (machine, action) = atHead(
      &archive, ArchiveHints(term: 7, checkpoint: 2, position: 5000))
    let head = ArchiveHead(
      term: 8, commit: archive.commit(5000).commit, checkpoint: archive.checkpoint(2))
    #expect(action == .headFound(head))
    action = run(&machine, machine.fence(fence), &archive)
    #expect(archive.requests.count == 10)
  }

  @Test func requestsAreLogarithmicWithoutHints() {
    let archive = ScriptedArchive(
      terms: 100_000, commits: 10_000_000, commitTerm: 99_000,
      checkpoints: (1...10_000).map { 500 * $0 })
    var copy = archive
    let (_, action) = atHead(&copy)
    let head = ArchiveHead(
      term: 100_001, commit: archive.commit(10_000_000).commit,
      checkpoint: archive.checkpoint(10_000))
    #expect(action == .headFound(head))
    // Twice the bits of 100,000, 10,000 and 5,000,000.
    #expect(copy.requests.count < 2 * (17 + 14 + 23) + 6)
  }

  @Test func wrongHintsFindTheSameHead() {
    let archive = ScriptedArchive(terms: 5, commits: 90, commitTerm: 4, checkpoints: [10, 60])
    let head = ArchiveHead(
      term: 6, commit: archive.commit(90).commit, checkpoint: archive.checkpoint(2))
    for term: UInt64 in [0, 3, 5, 6, 1000] {
      for checkpoint: UInt64 in [0, 1, 2, 3, 1000] {
        for position: UInt64 in [0, 5, 70, 90, 91, 1 << 40] {
          var copy = archive
          let hints = ArchiveHints(term: term, checkpoint: checkpoint, position: position)
          #expect(atHead(&copy, hints).1 == .headFound(head), "\(hints)")
        }
      }
    }
  }

  @Test func unknownAnswersRepeatTheSameRequest() {
    var archive = ScriptedArchive(terms: 3, commits: 20, commitTerm: 3, checkpoints: [4, 9])
    var machine = TakeOver()
    var action = machine.begin()
    var identities = [fence]
    while true {
      switch action {
      case .request(let request):
        #expect(machine.receive(.unknown) == action)
        #expect(machine.receive(.unknown) == action)
        action = machine.receive(archive.answer(request))
      case .headFound: action = machine.fence(identities.removeLast())
      case .attached(let state):
        #expect(state.head.position == 21 && state.term == 4)
        return
      case .fenced:
        Issue.record("no other writer exists")
        return
      }
    }
  }

  @Test func fencesWhoseAnswerWasLostAreRecognized() {
    var archive = ScriptedArchive()
    var (machine, _) = atHead(&archive)
    let create = machine.fence(fence)
    _ = archive.answer(.createCommit(position: 1, identity: fence))
    #expect(machine.receive(.unknown) == create)
    guard case .attached = run(&machine, create, &archive) else {
      Issue.record("the own fence is the head")
      return
    }
  }

  @Test func otherFencesLeadToTheSearchOfTheHead() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var (machine, _) = atHead(&archive)
    _ = archive.answer(.createCommit(position: 4, identity: otherFence))
    archive.others[4] = CommitSummary(
      CommitReference(position: 4, term: 1, identity: otherFence), previous: .none)
    let action = run(&machine, machine.fence(fence), &archive)
    let head = ArchiveHead(
      term: 2, commit: archive.commit(4).commit, checkpoint: nil)
    #expect(action == .headFound(head))
  }

  @Test func headsWithTheSameOrAHigherTermLeadToAHigherTerm() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var (machine, _) = atHead(&archive)
    // Writers with terms 3 and 4 take over. The one with term 4 creates commit 4.
    archive.terms = 4
    _ = archive.answer(.createCommit(position: 4, identity: otherFence))
    let action = run(&machine, machine.fence(fence), &archive)
    let head = ArchiveHead(term: 5, commit: archive.commit(4).commit, checkpoint: nil)
    #expect(action == .headFound(head))
    #expect(machine.term == 5)
  }

  @Test func fencesThatAreRemovedBeforeTheComparisonLeadToTheSearchOfTheHead() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var (machine, _) = atHead(&archive)
    #expect(
      machine.fence(fence) == .request(.createCommit(position: 4, identity: fence)))
    #expect(machine.receive(.exists) == .request(.readCommit(4)))
    #expect(machine.receive(.absent) == .request(.readCheckpoint(1)))
  }

  @Test func newerCheckpointsBeforeTheFenceLeadToTheSearchOfTheHead() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var machine = TakeOver()
    var action = machine.begin()
    var isSecond = false
    while case .request(let request) = action {
      if request == .readCheckpoint(1) {
        if isSecond { archive.checkpoints = [2] }
        isSecond = true
      }
      action = machine.receive(archive.answer(request))
    }
    let head = ArchiveHead(
      term: 2, commit: archive.commit(3).commit, checkpoint: archive.checkpoint(1))
    #expect(action == .headFound(head))
  }

  @Test func newerCheckpointsAfterTheFenceLeadToAHigherTerm() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var (machine, _) = atHead(&archive)
    archive.checkpoints = [2]
    let action = run(&machine, machine.fence(fence), &archive)
    // The own fence is the head, so the next fence needs a higher term.
    let head = ArchiveHead(
      term: 3, commit: archive.commit(4).commit, checkpoint: archive.checkpoint(1))
    #expect(action == .headFound(head))
    guard case .attached = run(&machine, machine.fence(otherFence), &archive) else {
      Issue.record("the second fence is acknowledged")
      return
    }
  }

  @Test func higherTermsAfterTheFenceEndTheMachine() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var (machine, _) = atHead(&archive)
    archive.terms += 1
    #expect(run(&machine, machine.fence(fence), &archive) == .fenced)
  }

  @Test func stalledWritersTakeAHigherTerm() {
    var archive = ScriptedArchive(terms: 1, commits: 3)
    var (machine, _) = atHead(&archive)
    #expect(machine.stalledTooLong() == .request(.createTerm(3)))
    let action = run(&machine, .request(.createTerm(3)), &archive)
    #expect(
      action
        == .headFound(ArchiveHead(term: 3, commit: archive.commit(3).commit, checkpoint: nil)))
  }
}
