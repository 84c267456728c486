@testable import MoraineEngine

/// State of a store's actor that tests look at.
extension Store {
  var isRereading: Bool { peers.isRereading }
  var waitsForTheWriterLock: Bool { peers.isEntering }
  var isCompacting: Bool { compaction.isRunning }
  /// Whether a compaction is under way, or a task waits for the moment to begin one.
  var isAtWork: Bool { compaction.isRunning || compaction.watchesForIdleness }
  var watchesForIdleness: Bool { compaction.watchesForIdleness }
  var followedNonce: UInt64 { peers.nonce }
}
