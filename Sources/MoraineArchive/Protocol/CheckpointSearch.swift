/// The search for the newest checkpoint. Checkpoints are numbered without gaps and never removed.
struct CheckpointSearch: Hashable, Sendable {
  /// The newest checkpoint that was read; nil before the first one.
  private(set) var newest: CheckpointSummary?
  private var gallop: Gallop
  /// Whether the hint counts as the newest number, without a request above it. Only a model check
  /// sets this.
  private let believesHint: Bool

  /// - Parameters:
  ///   - known: a checkpoint that was read before.
  ///   - hint: a number that may be the newest.
  init(above known: CheckpointSummary?, hint: UInt64 = 0, believesHint: Bool = false) {
    newest = known
    gallop = Gallop(above: known?.number ?? 0, hint: hint)
    self.believesHint = believesHint
    if believesHint, hint == 0 { gallop.recordAbsent() }
  }

  /// The next checkpoint to read; nil when ``newest`` is the newest one.
  var request: ArchiveRequest? { gallop.probe.map(ArchiveRequest.readCheckpoint) }

  mutating func receive(_ answer: ArchiveAnswer) {
    switch answer {
    case .checkpoint(let checkpoint):
      precondition(checkpoint.number == gallop.probe, "the answer is of another checkpoint")
      gallop.recordExisting()
      newest = checkpoint
      if believesHint { gallop.recordAbsent() }
    case .absent:
      gallop.recordAbsent()
    default:
      preconditionFailure("no answer to the read of a checkpoint: \(answer)")
    }
  }
}
