import MoraineEngine
public import MoraineFormat

/// What an archive holds.
public struct ArchiveInfo: Sendable {
  /// The id of the archive.
  public let id: String
  /// The id of the store whose copy it is.
  public let storeID: String
  /// The position of the newest state.
  public internal(set) var position: UInt64 = 0
  /// The number of the last operation in the newest state.
  public internal(set) var sequence = SequenceNumber.none
  /// The time of the newest state by the writer's clock: milliseconds since 1970, UTC.
  public internal(set) var milliseconds: UInt64 = 0
  /// The term of the last writer.
  public internal(set) var term: UInt64 = 0
  /// The number of the newest checkpoint; 0 for none.
  public internal(set) var checkpoint: UInt64 = 0
  /// The position of the newest checkpoint; 0 for none.
  public internal(set) var checkpointPosition: UInt64 = 0
  /// The number of commits that were read.
  public internal(set) var commitCount = 0
  /// The number of bytes of the objects that were read and checked; 0 unless the archive was
  /// verified.
  public internal(set) var checkedBytes: UInt64 = 0
}

extension Archive {
  /// Returns what the archive holds. Reads the newest checkpoint and the headers of the commits
  /// after it.
  ///
  /// - Throws: `.stateUnavailable` when the archive has no state yet; `.damaged`, `.unavailable`.
  public func info() async throws(ArchiveError) -> ArchiveInfo {
    try await inspect().info
  }

  /// Reads all objects that the newest state needs, and checks each byte of them.
  ///
  /// A cleaning may run beside it. What it has removed in the meantime is no damage: an older
  /// checkpoint is left out then, and for the newest state the verification begins again.
  ///
  /// - Parameter allStates: whether to read also what the states of all other checkpoints need, the
  ///   commits between them, and those before the first one.
  /// - Throws: `.damaged`, with the object and the offset; the errors of ``info()``.
  /// - Complexity: O(bytes of the archive's newest state). A restore also checks that the state
  ///   has the digest that the writer's store had.
  public func verify(allStates: Bool = false) async throws(ArchiveError) -> ArchiveInfo {
    var verification = ArchiveVerification(self, allStates: allStates)
    return try await verification.run()
  }

  /// Returns what the archive holds, and the history of its newest state.
  func inspect() async throws(ArchiveError) -> (
    info: ArchiveInfo, history: ArchiveHistory
  ) {
    var info = ArchiveInfo(id: id, storeID: objects.identity.storeID.description)
    let history = try await ArchiveHistory.read(objects, .latest)
    if let checkpoint = history.checkpoint {
      info.checkpoint = checkpoint.number
      info.checkpointPosition = checkpoint.position
      (info.sequence, info.milliseconds) = (checkpoint.sequence, checkpoint.milliseconds)
      info.term = checkpoint.term
    }
    info.position = history.end
    info.commitCount = history.headers.count
    if let last = history.headers[history.end] {
      (info.sequence, info.milliseconds) = (last.lastSequence, last.milliseconds)
      info.term = last.term
    }
    // The last writer may have left nothing but the fence of a new life, after the newest state.
    info.term = history.headers.values.reduce(info.term) { max($0, $1.term) }
    return (info, history)
  }
}
