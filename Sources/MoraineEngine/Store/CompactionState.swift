/// How a writer waits for compaction, so that the garbage stays limited.
enum WriterDelay: Equatable {
  case none
  /// The writer pauses for the bytes that it appends.
  case pause(nanosecondsPerByte: Double)
  /// The writer waits until compaction has read three times as many bytes as the writer appends.
  case untilProgress

  /// Pauses for the least garbage over the limit, and for the most, in nanoseconds for each byte.
  private static let rates = 0.75...64.0
  /// Rate up to which a small write pays for its own bytes with a pause that is not much longer
  /// than the write. With more garbage, writers sleep, so that compaction gets the processor.
  private static let highestPaidRate = 32.0
  private static let paidNanoseconds = 1_000.0
  private static let sleepNanoseconds = 1_000_000.0
  private static let longestNanoseconds = 128_000_000.0
  /// A sleep takes about 50 µs longer than it should, so a shorter pause keeps the thread busy.
  static let shortestSleepNanoseconds: UInt64 = 50_000
  /// Share of the tolerated garbage at which writers wait for progress.
  private static let highestShare = 3.0
  /// Number of bytes for which a delay holds: the figures of all segments are not summed for each
  /// write.
  static let decisionBytes: UInt64 = 128 << 10
  /// Number of bytes between two waits for progress.
  static let progressPieceBytes = 32 << 10

  /// Returns the delay for a share of the garbage that is tolerated over the limit. The pauses grow
  /// with the garbage.
  init(share: Double) {
    assert(share >= 0, "there is less garbage than none")
    if share < Self.highestShare {
      let (least, most) = (Self.rates.lowerBound, Self.rates.upperBound)
      self = .pause(nanosecondsPerByte: least + (most - least) * share / Self.highestShare)
    } else {
      self = .untilProgress
    }
  }

  /// Returns the pause before a unit of `count` bytes is appended, in nanoseconds, and the number
  /// of bytes that may be appended before the next pause: at least those of the unit.
  static func pause(atRate rate: Double, before count: Int) -> (nanoseconds: UInt64, bytes: Int) {
    assert(count > 0 && rate > 0, "a writer appends nothing")
    let least = rate < highestPaidRate ? paidNanoseconds : sleepNanoseconds
    let bytes = max(Double(count), least / rate)
    return (UInt64(min(longestNanoseconds, bytes * rate)), Int(bytes))
  }

  /// Returns how many bytes compaction must read before a unit of `count` bytes is appended.
  static func progressBytes(before count: Int) -> Int {
    3 * max(progressPieceBytes, count)
  }
}

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
  /// The deletion of expired entries, which makes garbage for compaction.
  let reaping = ReapingState()
  private var awaitsRoom = false
  /// Whether a task waits for the moment at which no task writes any more.
  var watchesForIdleness = false
  /// Whether a task looks for garbage again after another process has compacted.
  var recheckIsPlanned = false
  private var lastAppendedBytes: UInt64?
  /// The most bytes that were live since the last check for garbage; nil before the first check.
  private var mostLiveBytes: UInt64?
  /// Files of replaced segments that the disk was too full to remove.
  private var unremovedFiles: [String] = []
  private var delay = WriterDelay.none
  private var delayEnd: UInt64 = 0
  private var isRecheckRequested = false

  /// Whether a compaction is under way.
  var isRunning: Bool { gate.isHeld }

  /// The number of tasks that wait for the end of the compaction under way; for tests.
  var waitingCount: Int { gate.waitingCount }

  /// Begins a compaction. No other one is under way.
  func begin(isForFullDisk: Bool = false) {
    gate.take()
    self.isForFullDisk = isForFullDisk
    delayEnd = 0
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

  /// Returns whether no bytes were appended since the last call, and no compaction is under way.
  func isIdle(appendedBytes: UInt64) -> Bool {
    defer { lastAppendedBytes = appendedBytes }
    return lastAppendedBytes == appendedBytes && !isRunning
  }

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
  /// Returns how a writer waits now.
  ///
  /// - Parameters:
  ///   - appendedBytes: number of bytes that were appended so far.
  ///   - decide: returns the delay for the figures of this moment.
  func delay(appendedBytes: UInt64, _ decide: () -> WriterDelay) -> WriterDelay {
    if appendedBytes >= delayEnd {
      delay = decide()
      delayEnd = appendedBytes
      if case .pause = delay { delayEnd += WriterDelay.decisionBytes }
    }
    return delay
  }

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

  /// Makes the writers that wait for progress look whether to go on.
  func wakeWriters() { progress.wakeAll() }

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
  /// time, and then when a quarter of the most bytes that were live since the last check is gone.
  @inline(__always)
  func isCheckDue(liveBytes: UInt64) -> Bool {
    guard let most = mostLiveBytes, liveBytes >= most / 4 * 3 else { return true }
    if liveBytes > most { mostLiveBytes = liveBytes }
    return false
  }

  /// Records a check for garbage.
  func recordCheck(liveBytes: UInt64) { mostLiveBytes = liveBytes }

  /// Requests another check after the compaction under way: a delete would have begun a compaction.
  func requestRecheck() { isRecheckRequested = true }

  /// Returns whether another check was requested, and clears the request.
  func takeRecheckRequest() -> Bool {
    defer { isRecheckRequested = false }
    return isRecheckRequested
  }
}

/// Files that could not be removed.
extension CompactionState {
  /// Keeps the names of files for the next removal.
  func keepUnremoved(_ names: [String]) { unremovedFiles = names }

  /// Returns the names that were kept, and forgets them.
  func takeUnremoved() -> [String] {
    defer { unremovedFiles = [] }
    return unremovedFiles
  }
}
