/// State of a store's index checkpoints.
struct CheckpointState {
  /// Number of the bytes replayed and written in this run that the last checkpoint covers.
  private(set) var coveredBytes: UInt64 = 0
  /// Total size of all checkpoints that this run has written, in bytes.
  private(set) var writtenBytes: UInt64 = 0
  /// The error that kept the last checkpoint from being written; nil when it was written.
  private(set) var failure: StoreError?
  /// The names of the checkpoints in the directory.
  var names: [String] = []

  init(names: [String] = []) { self.names = names }

  /// Begins to count again for a state that was just opened.
  ///
  /// - Parameter writtenBytes: bytes that compactions of this run have written before.
  mutating func beginCounting(names: [String], writtenBytes: UInt64) {
    self.names = names
    coveredBytes = writtenBytes
  }

  mutating func recordWriting(lengthBytes: UInt64, covering bytes: UInt64) {
    assert(bytes >= coveredBytes, "a checkpoint covers less than the one before it")
    assert(lengthBytes > 0, "a checkpoint is empty")
    failure = nil
    coveredBytes = bytes
    writtenBytes &+= lengthBytes
  }

  mutating func recordFailure(_ error: StoreError) { failure = error }

  /// Records that the checkpoints were removed, because they contradicted the log.
  mutating func recordRemoval() {
    names = []
    coveredBytes = 0
  }
}
