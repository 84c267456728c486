@testable import MoraineEngine

/// State of a store's actor that tests look at.
extension Store {
  var isRereading: Bool { sharing.isRereading }
  var waitsForTheWriterLock: Bool { sharing.entryGate.isHeld }
  var isCompacting: Bool { compaction.isRunning }
  var followedNonce: UInt64 { sharing.nonce }
}
