@testable import MoraineEngine

<<<<<<< HEAD:Tests/MoraineEngineTests/Support/Store+State.swift
/// State of a store's actor that tests look at.
=======
/// Questions of tests to a store's actor about the processes that share the store.
>>>>>>> en8:Tests/MoraineEngineTests/Support/Store+Sharing.swift
extension Store {
  var isRereading: Bool { sharing.isRereading }
  var waitsForTheWriterLock: Bool { sharing.entryGate.isHeld }
  var isCompacting: Bool { compaction.isRunning }
  var followedNonce: UInt64 { sharing.nonce }
}
