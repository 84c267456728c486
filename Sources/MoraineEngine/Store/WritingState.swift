/// Gates by which the writers of a store, and the tasks that replace its manifest, take turns.
///
/// Part of the store's actor: no other isolation uses it.
final class WritingState {
  /// Held by a writer that makes room for its records, or that keeps all other writers out.
  let roomGate = AsyncGate()
  /// Held while the manifest is replaced: rotation and compaction take turns.
  let manifestGate = AsyncGate()
  private var lacksSpace = false
  /// Whether a task creates the segment after the active one.
  private(set) var isPreparingSpare = false
  /// The number of tasks that create, list or receive segments while other work goes on.
  private var segmentTaskCount = 0
  private let segmentTasks = AsyncGate()
  /// The number of the turn of a transaction that holds the room gate; nil when none does.
  private var turn: UInt64?
  private var turnCount: UInt64 = 0
  private struct WeakQueue {
    weak var queue: QueuedWrites?
  }
  private var queues: [WeakQueue] = []
  /// The reason for which all queues refuse writes, also new ones.
  private var refusal: StoreError?
  /// Queues with an error that no call had thrown when it occurred.
  private var failedQueues: [QueuedWrites] = []

  /// Records that a transaction holds the room gate.
  ///
  /// - Returns: the number of its turn.
  func beginTurn() -> UInt64 {
    precondition(roomGate.isHeld && turn == nil, "a turn begins without the gate")
    turnCount += 1
    turn = turnCount
    return turnCount
  }

  /// Takes the gate over from a turn. The caller releases it.
  ///
  /// - Returns: false when the turn has ended before.
  func takeTurn(_ number: UInt64) -> Bool {
    guard turn == number else { return false }
    assert(roomGate.isHeld, "a turn has lost the gate")
    turn = nil
    return true
  }

  func beginSegmentTask() { segmentTaskCount += 1 }

  func endSegmentTask() {
    precondition(segmentTaskCount > 0, "a task that lists segments ends twice")
    segmentTaskCount -= 1
    segmentTasks.wakeAll()
  }

  func beginPreparingSpare() {
    precondition(!isPreparingSpare, "two segments are created ahead of need")
    isPreparingSpare = true
    beginSegmentTask()
  }

  func endPreparingSpare() {
    isPreparingSpare = false
    endSegmentTask()
  }

  /// Waits until no task creates, lists or receives segments.
  nonisolated(nonsending) func waitForSegmentTasks() async {
    while segmentTaskCount > 0 { await segmentTasks.waitForWakeUp() }
  }

  func add(_ queue: QueuedWrites) {
    queues.removeAll { $0.queue == nil }
    queues.append(WeakQueue(queue: queue))
    if let refusal { queue.stop(refusal) }
  }

  /// Keeps a queue that has failed until a call has thrown its error, or the store closes.
  func keepUntilReported(_ queue: QueuedWrites) {
    failedQueues.removeAll { $0 === queue || !$0.hasUnreportedFailure }
    if queue.hasUnreportedFailure { failedQueues.append(queue) }
  }

  /// Makes all queues refuse writes.
  ///
  /// - Returns: whether writes are left that must be applied.
  func stopQueues(_ refusal: StoreError) -> Bool {
    self.refusal = refusal
    let living = queues.compactMap(\.queue)
    for queue in living { queue.stop(refusal) }
    return living.contains { !$0.isIdle }
  }

  func startQueues() {
    refusal = nil
    for queue in queues.compactMap(\.queue) { queue.start() }
  }

  /// Waits until the writes that wait in queues now are applied. The queues keep their errors.
  nonisolated(nonsending) func applyQueues() async {
    for queue in queues.compactMap(\.queue) { await queue.waitUntilIdle() }
  }

  /// Returns the error of writes that queues have dropped, if no call has thrown it.
  func takeUnreportedFailure() -> StoreError? {
    defer { failedQueues = [] }
    return failedQueues.compactMap { $0.takeUnreportedFailure() }.first
  }

  /// Records that an operation found no space.
  ///
  /// - Returns: whether space was not known to be lacking before.
  func beginsToLackSpace() -> Bool {
    defer { lacksSpace = true }
    return !lacksSpace
  }

  /// Records that a put found space.
  func foundSpace() { lacksSpace = false }
}
