import MoraineEngine
import MoraineFormat
import MoraineTesting
import Synchronization

/// A committed operation over lists, with what the store has promised for it.
struct HistoryOperation: Sendable {
  var committed: HistoryChecker.Committed
  /// The number of the commit. For an operation that has only read, the number of the last commit
  /// that it has seen.
  var sequence: UInt64
  /// Whether a power failure after the call has returned cannot take the operation, or what it has
  /// read.
  let isDurable: Bool
  /// Whether the operation has written a mark.
  let hasMark: Bool

  var id: HistoryChecker.ID { committed.id }
  var isWrite: Bool { !committed.appends.isEmpty }

  init(
    _ committed: HistoryChecker.Committed, sequence: UInt64, isDurable: Bool, hasMark: Bool = true
  ) {
    self.committed = committed
    self.sequence = sequence
    self.isDurable = isDurable
    self.hasMark = hasMark && !committed.appends.isEmpty
  }
}

/// A clock and a source of ids, which all stores and all runs of one test have in common.
final class HistoryClock: Sendable {
  private let moments = Atomic<Int>(0)
  private let ids = Atomic<HistoryChecker.ID>(1)

  func now() -> Int { moments.add(1, ordering: .sequentiallyConsistent).newValue }
  func newID() -> HistoryChecker.ID { ids.add(1, ordering: .sequentiallyConsistent).oldValue }
}

/// The operations of one run of a store, in the order in which they have begun and returned.
final class HistoryLog: Sendable {
  /// The part of a log that existed at a moment.
  struct Mark: Sendable {
    var begunCount = 0
    var returnedCount = 0
    /// The number of operations that had returned when a later sync of the store began.
    var syncedCount = 0
    /// All operations up to this number are durable.
    var watermark: UInt64 = 0
    /// Whether the store has returned the state that it has recovered.
    var isServing = false
  }

  private struct State {
    var now = Mark()
    var begun: [HistoryChecker.ID] = []
    var returned: [HistoryOperation] = []
    var failedCount = 0
  }

  private let clock: HistoryClock
  private let state = Mutex(State())

  init(_ clock: HistoryClock) {
    self.clock = clock
  }

  var now: Mark { state.withLock { $0.now } }
  /// The operations that have returned and have written or read something.
  var returned: [HistoryOperation] { state.withLock { $0.returned } }
  /// The number of operations that were refused or given up.
  var failedCount: Int { state.withLock { $0.failedCount } }

  func begunIDs(at mark: Mark) -> Set<HistoryChecker.ID> {
    state.withLock { Set($0.begun.prefix(mark.begunCount)) }
  }

  func beginServing() { state.withLock { $0.now.isServing = true } }

  /// Runs a sync of a store, and records that the operations before it are durable.
  func recordSync(_ sync: () async throws -> SequenceNumber) async throws {
    let count = now.returnedCount
    let sequence = try await sync()
    promise(sequence.rawValue)
    state.withLock { $0.now.syncedCount = max($0.now.syncedCount, count) }
  }

  /// Records that all operations up to a number are durable.
  func promise(_ sequence: UInt64) {
    state.withLock { $0.now.watermark = max($0.now.watermark, sequence) }
  }

  /// Runs an operation, and records that it begins and that it has returned.
  func record(
    _ operation: (HistoryChecker.ID) async throws -> HistoryOperation?
  ) async throws {
    let id = clock.newID()
    let began = clock.now()
    state.withLock { state in
      state.begun.append(id)
      state.now.begunCount += 1
    }
    guard var done = try await operation(id) else {
      state.withLock { $0.failedCount += 1 }
      return
    }
    done.committed.began = began
    done.committed.ended = clock.now()
    state.withLock { [done] state in
      state.returned.append(done)
      state.now.returnedCount += 1
    }
  }
}

/// The moments of a disk at which a crash could occur, with what was promised before.
final class CrashPoints: Sendable {
  struct Point: Sendable {
    let number: Int
    let moment: DiskMoment
    /// The log before the moment: the crash cannot take what it promises.
    let before: HistoryLog.Mark
    /// The log after the moment: other operations were not begun.
    let after: HistoryLog.Mark
  }

  private struct State {
    var points: [Point] = []
    var stores: [Store] = []
    var callCount: Int
    var period = 1
  }

  private let log: HistoryLog
  private let limit: Int
  private let state: Mutex<State>

  /// - Parameters:
  ///   - limit: the largest number of points; they are spread over the run.
  ///   - phase: the number at which the count of calls begins, so that seeds select other points.
  init(_ log: HistoryLog, limit: Int, phase: Int) {
    self.log = log
    self.limit = limit
    state = Mutex(State(callCount: phase))
  }

  var all: [Point] { state.withLock { $0.points } }

  /// Takes points before the calls that change the disk.
  func watch(_ disk: SimulatedDisk) {
    if limit > 0 { disk.setObserver { [self, unowned disk] in take(disk) } }
  }

  /// Includes the watermarks of the stores among the promises.
  func add(_ stores: [Store]) { state.withLock { $0.stores = stores } }

  /// Takes a point, if the present call is one of those that the limit leaves.
  ///
  /// Calls of other threads wait during this time: otherwise a moment could contain the later of
  /// two calls without the earlier one.
  func take(_ disk: SimulatedDisk) {
    state.withLock { state in
      state.callCount += 1
      guard state.callCount % state.period == 0 else { return }
      for store in state.stores { log.promise(store.durableSequence.rawValue) }
      let before = log.now
      let moment = disk.moment()
      state.points.append(
        Point(number: state.callCount, moment: moment, before: before, after: log.now))
      // The number of calls is not known before the run has ended.
      while state.points.count > limit {
        state.period *= 2
        let period = state.period
        state.points.removeAll { $0.number % period != 0 }
      }
    }
  }
}
