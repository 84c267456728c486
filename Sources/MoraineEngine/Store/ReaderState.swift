/// The readers that a store serves besides single calls: snapshots that are alive, and change
/// sequences that wait.
struct ReaderState {
  let live = LiveSnapshots()
  private weak var lastSnapshot: SnapshotHandle?
  private var lastCompactionCount: UInt64 = 0
  /// Change sequences that wait for an operation.
  var waiters = Waiters()
  private var isAwaitingPoison = false

  /// The last snapshot, where the store still is as the snapshot shows it.
  func snapshot(at sequence: UInt64, compactionCount: UInt64) -> SnapshotHandle? {
    guard let lastSnapshot, lastSnapshot.state.sequence.rawValue == sequence,
      lastCompactionCount == compactionCount
    else { return nil }
    return lastSnapshot
  }

  /// Keeps a snapshot, as long as a reader has it, for the next reader.
  mutating func keep(_ snapshot: SnapshotHandle, compactionCount: UInt64) {
    lastSnapshot = snapshot
    lastCompactionCount = compactionCount
  }

  /// - Returns: whether no task waits for the poison yet.
  mutating func beginsToAwaitPoison() -> Bool {
    defer { isAwaitingPoison = true }
    return !isAwaitingPoison
  }
}
