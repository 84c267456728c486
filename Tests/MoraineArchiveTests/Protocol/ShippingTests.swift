import MoraineArchive
import Testing

/// The machine of a writer that ships commits and creates checkpoints.
@Suite struct ShippingTests {
  private let identity = CommitIdentity(high: 9, low: 1)
  private let head = CommitReference(
    position: 4, term: 3, identity: CommitIdentity(high: 9, low: 0))
  private var machine: Shipping {
    Shipping(ShippingState(term: 3, head: head, checkpoint: nil))
  }
  private var create: Shipping.Action {
    .request(.createCommit(position: 5, identity: identity))
  }
  private var commit: CommitReference {
    CommitReference(position: 5, term: 3, identity: identity)
  }

  private func summary(_ identity: CommitIdentity, term: UInt64) -> CommitSummary {
    CommitSummary(
      CommitReference(position: 5, term: term, identity: identity), previous: head.identity)
  }

  private func checkpoint(
    _ number: UInt64, _ position: UInt64, term: UInt64 = 3
  )
    -> CheckpointSummary
  {
    CheckpointSummary(
      number: number,
      commit: CommitReference(
        position: position, term: term, identity: CommitIdentity(high: 8, low: position)))
  }

  @Test func commitsAreAcknowledgedAfterTheTermCheck() {
    var machine = machine
    #expect(machine.ship(identity) == create)
    #expect(!machine.isIdle)
    #expect(machine.receive(.created) == .request(.readTerm(4)))
    #expect(machine.receive(.absent) == .acknowledged(commit))
    #expect(machine.isIdle)
    #expect(machine.state.head == commit)
    let next = CommitIdentity(high: 9, low: 2)
    #expect(
      machine.ship(next) == .request(.createCommit(position: 6, identity: next)))
  }

  @Test func unknownAnswersRepeatTheSameRequest() {
    var machine = machine
    #expect(machine.ship(identity) == create)
    for _ in 0..<3 { #expect(machine.receive(.unknown) == create) }
    #expect(machine.receive(.exists) == .request(.readCommit(5)))
    for _ in 0..<3 { #expect(machine.receive(.unknown) == .request(.readCommit(5))) }
    #expect(machine.receive(.commit(summary(identity, term: 3))) == .request(.readTerm(4)))
    for _ in 0..<3 { #expect(machine.receive(.unknown) == .request(.readTerm(4))) }
    #expect(machine.receive(.absent) == .acknowledged(commit))
  }

  @Test func otherCommitsAtThePositionFence() {
    var machine = machine
    _ = machine.ship(identity)
    _ = machine.receive(.exists)
    let other = CommitIdentity(high: 1, low: 1)
    #expect(machine.receive(.commit(summary(other, term: 4))) == .fenced)
    #expect(!machine.isIdle)
  }

  @Test func higherTermsFence() {
    var machine = machine
    _ = machine.ship(identity)
    _ = machine.receive(.created)
    #expect(machine.receive(.exists) == .fenced)
    #expect(machine.state.head == head, "the commit is not acknowledged")
  }

  @Test func commitsThatAreRemovedBeforeTheComparisonAreCreatedAgainAtTheSamePosition() {
    var machine = machine
    _ = machine.ship(identity)
    _ = machine.receive(.exists)
    #expect(machine.receive(.absent) == create)
  }

  @Test func checkpointsTakeTheNextFreeNumber() {
    var machine = Shipping(ShippingState(term: 3, head: head, checkpoint: checkpoint(6, 1)))
    let request = Shipping.Action.request(
      .createCheckpoint(CheckpointSummary(number: 7, commit: head)))
    #expect(machine.checkpoint(head) == request)
    #expect(machine.receive(.unknown) == request)
    #expect(machine.receive(.exists) == .request(.readCheckpoint(7)))
    let created = CheckpointSummary(number: 8, commit: head)
    #expect(
      machine.receive(.checkpoint(checkpoint(7, 3))) == .request(.createCheckpoint(created)))
    #expect(machine.receive(.created) == .checkpointed(created))
    #expect(machine.isIdle)
    #expect(machine.state.checkpoint == created)
  }

  @Test func checkpointsOfCommitsBelowTheHeadAreCreated() {
    var machine = machine
    let lower = checkpoint(1, 2).commit
    _ = machine.checkpoint(lower)
    #expect(
      machine.receive(.created) == .checkpointed(CheckpointSummary(number: 1, commit: lower)))
  }

  @Test func checkpointsAtOrBelowTheNewestOneAreSuperseded() {
    let newest = checkpoint(6, 4)
    var machine = Shipping(ShippingState(term: 3, head: head, checkpoint: newest))
    #expect(machine.checkpoint(checkpoint(1, 2).commit) == .superseded(newest))
    #expect(machine.checkpoint(newest.commit) == .superseded(newest))
    #expect(machine.isIdle)
  }

  @Test func checkpointsOfAHigherTermFence() {
    var machine = machine
    _ = machine.checkpoint(head)
    _ = machine.receive(.exists)
    #expect(machine.receive(.checkpoint(checkpoint(1, 9, term: 4))) == .fenced)
  }

  @Test func stalledWritersAcknowledgeNothing() {
    var idle = machine
    #expect(idle.stalledTooLong() == .mustAttachAgain)
    var creating = machine
    _ = creating.ship(identity)
    #expect(creating.stalledTooLong() == .mustAttachAgain)
    var checking = machine
    _ = checking.ship(identity)
    _ = checking.receive(.created)
    #expect(checking.stalledTooLong() == .mustAttachAgain)
    #expect(checking.state.head == head)
  }
}
