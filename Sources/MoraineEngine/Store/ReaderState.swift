/// The readers of a store besides single calls: snapshots that still exist, and change sequences
/// that wait.
struct ReaderState {
  let live = LiveSnapshots()
  private weak var lastSnapshot: SnapshotHandle?
  private var lastCompactionCount: UInt64 = 0
  /// Change sequences that wait for an operation.
  var waiters = Waiters()
  private var isAwaitingPoison = false

  /// Returns the last snapshot, if it still exists and shows the current state of the store.
  func snapshot(at sequence: UInt64, compactionCount: UInt64) -> SnapshotHandle? {
    guard let lastSnapshot, lastSnapshot.state.sequence.rawValue == sequence,
      lastCompactionCount == compactionCount
    else { return nil }
    return lastSnapshot
  }

  /// Keeps a snapshot for the next reader, as long as a reader holds it.
  mutating func keep(_ snapshot: SnapshotHandle, compactionCount: UInt64) {
    lastSnapshot = snapshot
    lastCompactionCount = compactionCount
  }

  /// Records that a task waits for the poison.
  ///
  /// - Returns: whether no task has waited for it before.
  mutating func beginsToAwaitPoison() -> Bool {
    defer { isAwaitingPoison = true }
    return !isAwaitingPoison
  }
}
