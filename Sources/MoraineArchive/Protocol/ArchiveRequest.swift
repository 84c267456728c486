/// One request to the store of objects. The caller sends it and passes the answer to the machine.
package enum ArchiveRequest: Hashable, Sendable {
  /// Create `term/<t>` if absent.
  case createTerm(UInt64)
  case readTerm(UInt64)
  /// Create `log/<position>` if absent, with the bytes that the caller has for the identity.
  case createCommit(position: UInt64, identity: CommitIdentity)
  case readCommit(UInt64)
  /// Create `chk/<number>` if absent.
  case createCheckpoint(CheckpointSummary)
  case readCheckpoint(UInt64)
}

/// The answer to an ``ArchiveRequest``.
///
/// The caller has verified the checksum of an object, and that the number in a checkpoint is the
/// number in its name. An object that is damaged is no answer: the caller ends with an error.
package enum ArchiveAnswer: Hashable, Sendable {
  /// A create: no object had the name, and the object exists now.
  case created
  /// A create, or a read of a term: an object has the name.
  case exists
  /// A read: the store of objects has said that no object has the name. Neither a refused request
  /// nor a lost answer says so.
  case absent
  case commit(CommitSummary)
  case checkpoint(CheckpointSummary)
  /// The answer was lost, or leaves open whether the request had an effect. The machine gives the
  /// same request again, and the caller waits for a while before it sends the request.
  case unknown
}
