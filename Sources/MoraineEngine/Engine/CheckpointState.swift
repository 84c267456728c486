/// What a store knows of its index checkpoints.
struct CheckpointState {
  /// The part of all bytes ever appended that a checkpoint covers.
  private(set) var coveredBytes: UInt64 = 0
  /// Bytes that all checkpoints of this run had.
  private(set) var writtenBytes: UInt64 = 0
  /// Why the last checkpoint was not written, when it was not.
  private(set) var failure: StoreError?
  /// The names of the checkpoints in the directory.
  var names: [String] = []

  init(names: [String] = []) { self.names = names }

  mutating func recordWriting(lengthBytes: UInt64, covering bytes: UInt64) {
    failure = nil
    coveredBytes = bytes
    writtenBytes &+= lengthBytes
  }

  mutating func recordFailure(_ error: StoreError) { failure = error }

  /// Forgets the checkpoints, which were removed: they contradicted the log.
  mutating func recordRemoval() {
    names = []
    coveredBytes = 0
  }
}
