@testable import MoraineEngine

/// State of a store's actor that tests look at.
extension Store {
  var isRereading: Bool { peers.isRereading }
  var waitsForTheWriterLock: Bool { peers.isEntering }
  var isCompacting: Bool { compaction.isRunning }
  var followedNonce: UInt64 { peers.nonce }
}
