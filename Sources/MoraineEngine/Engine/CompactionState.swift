/// The state of a store's compactions, of which one runs at a time.
///
/// Part of the store's actor: no other isolation uses it. The work itself is done by
/// `Store.compact(_:)` and by the compaction in the background.
final class CompactionState {
  private let gate = AsyncGate()
  private let progress = AsyncGate()
  /// Bytes that all compactions have written.
  private(set) var writtenBytes: UInt64 = 0
  /// The number of rewritten runs of segments.
  private(set) var count: UInt64 = 0
  /// The number of compactions that have ended.
  private(set) var endCount: UInt64 = 0
  private var readBytes: UInt64 = 0
  /// The error that ended the last background compaction early, or the damage of a segment.
  private(set) var failure: StoreError?
  /// Whether the compaction under way began because the disk is full.
  private(set) var isForFullDisk = false
  /// Whether the compaction under way has taken the space that is reserved for a full disk.
  private(set) var hasReserve = false
  private var awaitsRoom = false
  private var nextCheckLiveBytes = UInt64.max
  private var isRecheckRequested = false

  /// Whether a compaction is under way.
  var isRunning: Bool { gate.isHeld }

  /// The number of tasks that wait for the end of the compaction under way; for tests.
  var waitingCount: Int { gate.waitingCount }

  /// Begins a compaction. No other one is under way.
  func begin(isForFullDisk: Bool = false) {
    gate.take()
    self.isForFullDisk = isForFullDisk
  }

  /// Ends the compaction under way, and wakes the tasks that wait for it.
  func end() {
    isForFullDisk = false
    hasReserve = false
    endCount += 1
    gate.release()
    progress.wakeAll()
  }

  /// Waits until no compaction is under way.
  nonisolated(nonsending) func waitForEnd() async { await gate.waitUntilFree() }

  /// Records the error with which the background work ended; nil for success.
  func finish(_ failure: StoreError?) { self.failure = failure }

  /// Records that the reserve was released. A compaction under way may use it up.
  func reserveWasReleased() { hasReserve = isRunning }

  /// Records bytes that the compaction has read, and wakes writers that wait for progress.
  func advance(readingBytes bytes: UInt64) {
    assert(isRunning, "bytes were read without a running compaction")
    readBytes &+= bytes
    progress.wakeAll()
  }

  /// Records a run of segments that was rewritten as `outputBytes` bytes.
  func recordRewriting(outputBytes: UInt64) {
    assert(isRunning, "a compaction wrote bytes without a running compaction")
    writtenBytes += outputBytes
    count += 1
  }
}

/// Waiting of writers until a compaction has caught up.
extension CompactionState {
  /// Waits until the compaction under way has read `bytes` more, or has ended, or needs the gate
  /// that the waiting writer holds.
  ///
  /// - Parameter isOpen: returns whether to go on waiting; called at each step.
  nonisolated(nonsending) func waitForProgress(
    ofBytes bytes: UInt64, while isOpen: () -> Bool
  ) async {
    let goal = readBytes &+ bytes
    while isRunning, isOpen(), !awaitsRoom, readBytes < goal { await progress.waitForWakeUp() }
  }

  /// Lets a writer that waits for progress go on: the compaction needs the gate that the writer
  /// holds.
  func beginAwaitingRoom() {
    awaitsRoom = true
    progress.wakeAll()
  }

  func endAwaitingRoom() { awaitsRoom = false }
}

/// Checks for garbage after deletes.
extension CompactionState {
  /// Returns whether to check for garbage, now that deletes have left `liveBytes`: always the first
  /// time, and then when a quarter of the bytes that were live at the last check is gone.
  @inline(__always)
  func isCheckDue(liveBytes: UInt64) -> Bool {
    guard liveBytes < nextCheckLiveBytes else { return false }
    nextCheckLiveBytes = liveBytes / 4 * 3
    return true
  }

  /// Requests another check after the compaction under way: a delete would have begun a compaction.
  func requestRecheck() { isRecheckRequested = true }

  /// Returns whether another check was requested, and clears the request.
  func takeRecheckRequest() -> Bool {
    defer { isRecheckRequested = false }
    return isRecheckRequested
  }
}
