import Synchronization

/// A moment at which a crash is tried, and what was promised by then.
struct CrashPoint: Sendable {
  let number: Int
  let moment: DiskMoment
  /// What the program was doing, as a count of its steps.
  let step: Int
  let before: CrashLedger.Counts
  let after: CrashLedger.Counts
}

/// Takes a crash point before every call that changes a disk.
final class CrashRecorder: Sendable {
  private struct State {
    var points: [CrashPoint] = []
    var step = 0
    var callCount = 0
  }

  private let ledger: CrashLedger
  private let period: Int
  private let state = Mutex(State())
  /// Brings the ledger up to date; called before each moment.
  private let refresh: @Sendable () -> Void

  /// - Parameter period: every so many points are taken.
  init(
    _ ledger: CrashLedger, period: Int = 1, refresh: @escaping @Sendable () -> Void = {}
  ) {
    self.ledger = ledger
    self.period = max(1, period)
    self.refresh = refresh
  }

  var points: [CrashPoint] { state.withLock { $0.points } }

  func watch(_ disk: SimulatedDisk) {
    disk.setObserver { [self, unowned disk] in take(disk) }
  }

  func beginStep(_ number: Int) { state.withLock { $0.step = number } }

  func take(_ disk: SimulatedDisk) {
    let isDue = state.withLock { state in
      state.callCount += 1
      return state.callCount % period == 0
    }
    guard isDue else { return }
    refresh()
    // What is promised before the bytes are looked at must be in them, and what is in them was begun
    // before that.
    let before = ledger.now
    let moment = disk.moment()
    let after = ledger.now
    state.withLock { state in
      state.points.append(
        CrashPoint(
          number: state.points.count, moment: moment, step: state.step, before: before,
          after: after))
    }
  }
}
