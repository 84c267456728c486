import MoraineFormat

/// The objects of checkpoints that a cleaning was about to remove, until it has removed them. When
/// it fails in between, nothing in the archive leads to some of them any more.
struct UnfinishedRemoval: Sendable {
  var contents: Set<DataObjectName> = []
  var segments: Set<DataObjectName> = []

  var all: Set<DataObjectName> { contents.union(segments) }

  mutating func formUnion(_ other: UnfinishedRemoval) {
    contents.formUnion(other.contents)
    segments.formUnion(other.segments)
  }

  mutating func subtract(_ other: UnfinishedRemoval) {
    contents.subtract(other.contents)
    segments.subtract(other.segments)
  }
}

/// The order in which a cleaning removes data objects: the contents of a few checkpoints, then the
/// segments that no checkpoint names which goes later, and so on.
///
/// So a checkpoint's contents that exist lead to segments that exist. When the process ends, only
/// segments of one group of checkpoints may be left without contents that lead to them. Those of
/// the newest term stay until the next writer has made a checkpoint.
struct RemovalOrder {
  /// The number of checkpoints whose contents are removed before their segments.
  private static let groupCount = 4

  private var turns: [DataObjectName: Int] = [:]
  private var checkpointCount = 0

  /// - Parameter unfinished: what a cleaning has left that failed. It goes first, apart from what a
  ///   checkpoint names that is added.
  init(_ unfinished: UnfinishedRemoval) {
    for name in unfinished.segments { turns[name] = 1 }
    for name in unfinished.contents { turns[name] = 0 }
  }

  /// Adds a checkpoint that is removed after those that were added before.
  mutating func add(_ contents: DataObjectName, _ segments: [DataObjectName]) {
    let group = 1 + checkpointCount / Self.groupCount
    checkpointCount += 1
    turns[contents] = 2 * group
    for name in segments { turns[name] = 2 * group + 1 }
  }

  /// Returns the names, in the groups in which they are removed one after the other. Those that no
  /// checkpoint names are in the last group.
  func groups(_ names: [DataObjectName]) -> [[DataObjectName]] {
    Dictionary(grouping: names) { turns[$0, default: .max] }
      .sorted { $0.key < $1.key }
      .map(\.value)
  }
}
