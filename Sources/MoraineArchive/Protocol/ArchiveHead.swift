/// What a writer knows about an archive before it takes over. Hints save requests; a wrong hint
/// costs requests and does no harm.
package struct ArchiveHints: Hashable, Sendable {
  /// The highest known term.
  package let term: UInt64
  /// The number of the newest known checkpoint.
  package let checkpoint: UInt64
  /// The position of the last known commit.
  package let position: UInt64

  package init(term: UInt64 = 0, checkpoint: UInt64 = 0, position: UInt64 = 0) {
    (self.term, self.checkpoint, self.position) = (term, checkpoint, position)
  }
}

/// The end of an archive's history, as a writer that takes over finds it.
package struct ArchiveHead: Hashable, Sendable {
  /// The term of the writer that takes over, higher than the term of ``commit``.
  package let term: UInt64
  /// The last commit; nil when the archive has no log yet.
  package let commit: CommitReference?
  /// The newest checkpoint; nil when the archive has none.
  package let checkpoint: CheckpointSummary?

  package init(term: UInt64, commit: CommitReference?, checkpoint: CheckpointSummary?) {
    precondition(
      commit?.position ?? 0 >= checkpoint?.commit.position ?? 0,
      "the head is not below the newest checkpoint")
    (self.term, self.commit, self.checkpoint) = (term, commit, checkpoint)
  }

  /// The position of the last commit; zero when the archive has no log yet.
  package var position: UInt64 { commit?.position ?? 0 }

  /// The identity that the fence names as the commit before.
  package var previous: CommitIdentity { commit?.identity ?? .none }
}
