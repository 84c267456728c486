import Synchronization

/// A moment at which a crash is tried, and what was promised by then.
struct CrashPoint: Sendable {
  /// Which of the moments that a crash could come at.
  let number: Int
  let moment: DiskMoment
  /// What the program was doing, as a count of its steps.
  let step: Int
  let before: CrashLedger.Counts
  let after: CrashLedger.Counts
}

/// Which of a workload's crash points are taken.
struct CrashPointChoice: Sendable {
  /// Every so many.
  var period = 1
  /// At most so many; those that are left are spread over the workload.
  var limit = Int.max
  /// Moves them, so that each seed has others.
  var phase = 0
}

/// Takes a crash point before every call that changes a disk.
final class CrashRecorder: Sendable {
  private struct State {
    var points: [CrashPoint] = []
    var step = 0
    var callCount = 0
    var period: Int

    /// How many there will be is not known while they come: with too many, every other is dropped,
    /// and those to come are twice as rare.
    mutating func thin(to limit: Int) {
      guard points.count > limit else { return }
      period *= 2
      points.removeAll { $0.number % period != 0 }
    }
  }

  private let ledger: CrashLedger
  private let choice: CrashPointChoice
  private let state: Mutex<State>
  /// Brings the ledger up to date; called before each moment.
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
    // What is promised before the bytes are looked at must be in them, and what is in them was
    // begun before that.
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
