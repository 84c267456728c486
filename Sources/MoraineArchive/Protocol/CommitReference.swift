/// The opaque identity of a commit: a nonce of 128 random bits. A caller draws a new identity for
/// each commit and never gives one identity to two commits with different bytes.
package struct CommitIdentity: Hashable, Sendable {
  package let high: UInt64
  package let low: UInt64

  /// The identity before the first commit.
  package static let none = CommitIdentity(high: 0, low: 0)

  package init(high: UInt64, low: UInt64) { (self.high, self.low) = (high, low) }
}

/// Names one commit of the history.
package struct CommitReference: Hashable, Sendable {
  /// The number in the commit's name; the first commit has 1.
  package let position: UInt64
  /// The term of the writer that created the commit.
  package let term: UInt64
  package let identity: CommitIdentity

  package init(position: UInt64, term: UInt64, identity: CommitIdentity) {
    precondition(position > 0, "positions begin at 1")
    precondition(term > 0, "terms begin at 1")
    precondition(identity != .none, "a commit has an identity")
    (self.position, self.term, self.identity) = (position, term, identity)
  }
}

/// The part of a commit that the protocol reads.
package struct CommitSummary: Hashable, Sendable {
  package let commit: CommitReference
  /// The identity of the commit before; `.none` at position 1.
  package let previous: CommitIdentity

  package init(_ commit: CommitReference, previous: CommitIdentity) {
    (self.commit, self.previous) = (commit, previous)
  }
}

/// The part of a checkpoint that the protocol reads.
package struct CheckpointSummary: Hashable, Sendable {
  /// The number in the checkpoint's name; the first checkpoint has 1.
  package let number: UInt64
  /// The commit whose state the checkpoint holds. Its term is the term of the commit, which may be
  /// lower than the term of the checkpoint's creator.
  package let commit: CommitReference

  package init(number: UInt64, commit: CommitReference) {
    precondition(number > 0, "checkpoints are numbered from 1")
    (self.number, self.commit) = (number, commit)
  }
}
