import Synchronization

/// A moment at which a crash is tried, and the promises that were made before it.
struct CrashPoint: Sendable {
  /// Number of this moment among those at which a crash could occur.
  let number: Int
  let moment: DiskMoment
  /// Index of the workload step that was running.
  let step: Int
  let before: CrashLedger.Counts
  let after: CrashLedger.Counts
}

/// A selection of the crash points of a workload.
struct CrashPointChoice: Sendable {
  /// Distance between two points, in moments at which a crash could occur.
  var period = 1
  /// Maximum number of points. The points that remain are spread over the workload.
  var limit = Int.max
  /// Number at which the count of moments begins, so that each seed selects other points.
  var phase = 0
}

/// A recorder that takes a crash point before every call that changes a disk.
final class CrashRecorder: Sendable {
  private struct State {
    var points: [CrashPoint] = []
    var step = 0
    var callCount = 0
    var period: Int

    /// Doubles the period when there are more points than the limit, and drops the points that the
    /// new period leaves out, which is every second one. The number of points is not known in
    /// advance.
    mutating func thin(to limit: Int) {
      guard points.count > limit else { return }
      period *= 2
      points.removeAll { $0.number % period != 0 }
    }
  }

  private let ledger: CrashLedger
  private let choice: CrashPointChoice
  private let state: Mutex<State>
  /// Updates the ledger; called before each moment is taken.
  private let refresh: @Sendable () -> Void

  init(
    _ ledger: CrashLedger, choice: CrashPointChoice = CrashPointChoice(),
    refresh: @escaping @Sendable () -> Void = {}
  ) {
    self.ledger = ledger
    self.choice = choice
    self.refresh = refresh
    state = Mutex(State(callCount: choice.phase, period: max(1, choice.period)))
  }

  var points: [CrashPoint] { state.withLock { $0.points } }

  func watch(_ disk: SimulatedDisk) {
    disk.setObserver { [self, unowned disk] in take(disk) }
  }

  func beginStep(_ number: Int) { state.withLock { $0.step = number } }

  func take(_ disk: SimulatedDisk) {
    let isDue = state.withLock { state in
      state.callCount += 1
      return state.callCount % state.period == 0
    }
    guard isDue else { return }
    refresh()
    // The order matters: the bytes of the moment must contain every step that `before` promises,
    // because the promise came first. Every step in the bytes has begun by `after`.
    let before = ledger.now
    let moment = disk.moment()
    let after = ledger.now
    state.withLock { state in
      state.points.append(
        CrashPoint(
          number: state.callCount, moment: moment, step: state.step, before: before,
          after: after))
      state.thin(to: choice.limit)
    }
  }
}
