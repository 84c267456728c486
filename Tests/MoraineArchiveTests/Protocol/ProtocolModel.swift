import MoraineArchive

/// The things that can happen in a run of the model, besides requests and their answers.
struct ModelFeatures: OptionSet, Sendable {
  let rawValue: UInt16
  /// A create has its effect and its answer is lost.
  static let lostAnswers = ModelFeatures(rawValue: 1 << 0)
  /// A create of a commit has its effect later, even after the writer repeated it, or never. One
  /// at a time.
  static let delayedCreates = ModelFeatures(rawValue: 1 << 1)
  /// A writer ends at any moment.
  static let deaths = ModelFeatures(rawValue: 1 << 2)
  /// A cleaner removes commits up to the newest checkpoint. Without it writers remove commits up to
  /// their own checkpoints, fenced writers too.
  static let cleaner = ModelFeatures(rawValue: 1 << 3)
  /// A follower reads along.
  static let follower = ModelFeatures(rawValue: 1 << 4)
  /// A restore of the state at the last position but one begins at any moment.
  static let restore = ModelFeatures(rawValue: 1 << 5)
  /// The objects of terms expire, the oldest first.
  static let expiringTerms = ModelFeatures(rawValue: 1 << 6)
  /// Writers begin with hints that are outdated, right, or too high.
  static let anyHints = ModelFeatures(rawValue: 1 << 7)
}

/// How a writer learns that it stalled too long, when terms expire.
enum StallRule: Sendable {
  /// More than the limit since the last conclusive check: the rule.
  case sinceLastCheck
  /// More than the limit between the create of a commit and its check. An idle writer is not
  /// stalled.
  case sinceCreate
  case ignored
}

/// A size and the features of a search.
struct ModelConfiguration: Sendable, CustomStringConvertible {
  var writers: Int
  var positions: Int
  var features: ModelFeatures = []
  var rules: ProtocolRules = .all
  var stallRule = StallRule.sinceLastCheck
  /// The largest number of commits that a follower reads before it asks for a checkpoint.
  var followerBatch: UInt64 = 1
  /// Whether each object of the history must name the one before it. Otherwise only the terms of
  /// the history are checked.
  var checksChain = true
  /// Whether a request whose answer can never change is sent at once.
  var isReduced = true
  var stateLimit = 60_000_000

  var description: String {
    let names: [(ModelFeatures, String)] = [
      (.lostAnswers, "lost"), (.delayedCreates, "delayed"), (.deaths, "deaths"),
      (.cleaner, "cleaner"), (.follower, "follower"),
      (.restore, "restore"), (.expiringTerms, "expiring terms"), (.anyHints, "any hints"),
    ]
    let used = names.filter { features.contains($0.0) }.map(\.1)
    let missing = ProtocolRules.all.subtracting(rules).rawValue
    return "\(writers) writers x \(positions) positions, \(used.joined(separator: ", "))"
      + (missing == 0 ? "" : ", without rules \(String(missing, radix: 2))")
  }
}

/// A promise that a step breaks.
struct ModelViolation: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// An index into ``ModelTables/commits``; zero stands for no commit.
typealias CommitIndex = UInt16

/// The abstract store of objects, and its history.
struct ModelWorld: Hashable {
  /// The commit at each position that exists now. Index 0 is position 1.
  var objects = SIMD8<CommitIndex>()
  /// The first commit that was ever created at each position.
  var history = SIMD8<CommitIndex>()
  /// The position of each checkpoint. Index 0 is checkpoint 1.
  var checkpoints = SIMD8<UInt8>()
  var checkpointCount: UInt8 = 0
  /// The number of positions from 1 that were removed.
  var removed: UInt8 = 0
  /// The terms that exist now: bit t is term t.
  var terms: UInt16 = 0
  /// The highest term that was ever created.
  var highestTerm: UInt8 = 0
  /// Whether the answer to the creation of a term was lost in this run: once only.
  var hasLostTerm = false
  /// The commit of a delayed create; zero for none.
  var delayed: CommitIndex = 0

  var newestPosition: UInt8 {
    checkpointCount == 0 ? 0 : checkpoints[Int(checkpointCount) - 1]
  }
}

/// A writer and its open request.
struct ModelWriter: Hashable {
  enum Machine: Hashable {
    case off
    case takeOver(TakeOver)
    case shipping(Shipping)
    /// Fenced, but its process lives.
    case fenced
    case dead
  }

  let number: UInt8
  var machine = Machine.off
  var request: ArchiveRequest?
  /// The commit of the open request, or of the last one.
  var commit: CommitIndex = 0
  /// The number of identities that the writer has used.
  var identities: UInt8 = 0
  /// The position of the own newest checkpoint, when it can remove commits.
  var cleaningLimit: UInt8 = 0
  var hasStalled = false

  var term: UInt64 {
    switch machine {
    case .takeOver(let machine): machine.term
    case .shipping(let machine): machine.state.term
    default: 0
    }
  }
}

/// A follower or a restore, and its open request.
struct ModelReader: Hashable {
  var machine: HistoryReader
  var request: ArchiveRequest?
  /// The commits of the current poll.
  var read = SIMD8<CommitIndex>()
  var readCount: UInt8 = 0
  var start: UInt8 = 0
  var hasBegun = false
  var hasEnded = false
}

/// The input of a writer or a reader: the answer to its request, or a choice.
enum ModelInput: Hashable {
  case answer(ArchiveAnswer)
  case begin(ArchiveHints)
  case ship
  case checkpoint(CommitReference)
  case restore(CheckpointSummary?)
  case poll
  case die
  case stall
}

/// The claim that a machine makes in a step. The world decides whether it is right.
enum ModelClaim: Hashable {
  case none
  case acknowledged(CommitReference, isFence: Bool)
  case fenced(term: UInt64)
  case applied(SIMD8<CommitIndex>, count: UInt8, start: UInt8)
  case rebased(CheckpointSummary)
  case damaged
}

/// One step, for the path that leads to a violation.
struct ModelStep: CustomStringConvertible {
  enum Actor { case writer(Int), reader, world }
  let actor: Actor
  let input: ModelInput?
  let request: ArchiveRequest?
  let note: StaticString

  var description: String {
    let name =
      switch actor {
      case .writer(let index): "writer \(index): "
      case .reader: "reader: "
      case .world: ""
      }
    let text = [request.map { "\($0)" }, input.map { "\($0)" }].compactMap(\.self)
      .joined(separator: " -> ")
    return name + Self.short(text) + (note.utf8CodeUnitCount == 0 ? "" : " (\(note))")
  }

  /// Leaves out the names of types, so that a step fits a line.
  private static func short(_ text: String) -> String {
    let types = [
      "ArchiveAnswer.", "ArchiveHints", "CommitSummary", "CheckpointSummary", "CommitReference",
      "CommitIdentity",
    ]
    var text = text
    for word in types.map({ "MoraineArchive." + $0 }) { text.replace(word, with: "") }
    return text
  }
}
