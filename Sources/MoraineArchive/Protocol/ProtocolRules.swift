/// The rules of the protocol that a model check can switch off one at a time, to see that each of
/// them is needed. An archive always runs with ``all``.
package struct ProtocolRules: OptionSet, Hashable, Sendable {
  package let rawValue: UInt16
  package init(rawValue: UInt16) { self.rawValue = rawValue }

  /// A writer creates a term only when the term before it has existed. Otherwise a writer that
  /// asks for the next term alone does not see its successor.
  package static let contiguousTerms = ProtocolRules(rawValue: 1 << 0)
  /// A writer finds the newest checkpoint by its number, and does not believe a hint or a list.
  package static let numberedCheckpoints = ProtocolRules(rawValue: 1 << 1)
  /// A writer that has read the log asks for a newer checkpoint before it creates its fence.
  /// Commits that were read above an outdated checkpoint may be late objects of a fenced writer.
  package static let checkpointCheckBeforeFence = ProtocolRules(rawValue: 1 << 2)
  /// A writer whose fence finds another commit reads the archive's head again, from the
  /// checkpoints on. It does not go on at the next position.
  package static let searchAfterConflict = ProtocolRules(rawValue: 1 << 3)
  /// A writer asks for a newer checkpoint after it created its fence.
  package static let checkpointCheckAfterFence = ProtocolRules(rawValue: 1 << 4)
  /// A writer recognizes its own commit, whose answer was lost, when a create finds an object.
  package static let recognizeOwnCommits = ProtocolRules(rawValue: 1 << 5)
  /// A writer recognizes the commit of another writer when a create finds an object.
  package static let recognizeOtherCommits = ProtocolRules(rawValue: 1 << 6)
  /// A writer asks for the next term after each commit, before the acknowledgement.
  package static let termCheckAfterCommit = ProtocolRules(rawValue: 1 << 7)
  /// A reader asks for a newer checkpoint after it read commits, before it applies them.
  package static let checkpointCheckBeforeApplying = ProtocolRules(rawValue: 1 << 8)
  /// A reader that finds a checkpoint at or below its position asks for the checkpoint after it,
  /// until there is none.
  package static let checkpointCheckToTheEnd = ProtocolRules(rawValue: 1 << 9)
  /// A reader compares the identity of the commit before.
  package static let chainCheck = ProtocolRules(rawValue: 1 << 10)
  /// A restore of an older state reads on to the next checkpoint, whose commit must end the chain.
  package static let closedChain = ProtocolRules(rawValue: 1 << 11)

  /// A reader that goes on past a newer checkpoint has read the very commit of that checkpoint.
  package static let checkpointInChain = ProtocolRules(rawValue: 1 << 12)

  package static let all = ProtocolRules(rawValue: (1 << 13) - 1)

  /// Whether a commit that a create has found is the one that the writer creates.
  func isOwn(_ found: CommitSummary, _ identity: CommitIdentity) -> Bool {
    let isSame = found.commit.identity == identity
    return isSame ? contains(.recognizeOwnCommits) : !contains(.recognizeOtherCommits)
  }
}
