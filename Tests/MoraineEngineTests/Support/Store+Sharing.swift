@testable import MoraineEngine

/// Questions of tests to a store's actor about the processes that share the store.
extension Store {
  var isRereading: Bool { sharing.isRereading }
  var waitsForTheWriterLock: Bool { sharing.entryGate.isHeld }
  var followedNonce: UInt64 { sharing.nonce }
}
