public import MoraineEngine
import Synchronization

/// A clock for tests, which moves only when the test moves it.
///
/// ```swift
/// let clock = ManualClock(startingAt: 1_700_000_000_000)
/// var configuration = Store.Configuration()
/// configuration.clock = clock
/// // …
/// clock.advance(by: .seconds(3600))
/// ```
public final class ManualClock: StoreClock {
  private struct Sleeper {
    let time: UInt64
    let continuation: CheckedContinuation<Void, Never>
  }

  private struct State {
    var milliseconds: UInt64
    var steadyMilliseconds: UInt64 = 0
    var sleepers: [UInt64: Sleeper] = [:]
    var cancelled: Set<UInt64> = []
    var nextSleeper: UInt64 = 0

    /// Removes and returns the sleepers whose time has come.
    mutating func takeDue() -> [Sleeper] {
      let due = sleepers.filter { $0.value.time <= milliseconds }
      for id in due.keys { sleepers[id] = nil }
      return Array(due.values)
    }
  }

  private let state: Mutex<State>

  /// Creates a clock.
  ///
  /// - Parameter milliseconds: the time, in milliseconds since the beginning of 1970, UTC.
  public init(startingAt milliseconds: UInt64) {
    state = Mutex(State(milliseconds: milliseconds))
  }

  /// The time that the test has set.
  public var milliseconds: UInt64 { state.withLock { $0.milliseconds } }

  /// The sum of all advances, in milliseconds.
  public var steadyMilliseconds: UInt64 { state.withLock { $0.steadyMilliseconds } }

  /// Number of tasks that wait for a time.
  public var sleeperCount: Int { state.withLock { $0.sleepers.count } }

  /// Lets time pass, and wakes the tasks whose time has come.
  public func advance(by duration: Duration) {
    let (seconds, attoseconds) = duration.components
    advance(byMilliseconds: UInt64(max(0, seconds * 1000 + attoseconds / 1_000_000_000_000_000)))
  }

  /// Lets time pass until a later time.
  public func advance(toMilliseconds time: UInt64) {
    let now = milliseconds
    advance(byMilliseconds: time > now ? time - now : 0)
  }

  private func advance(byMilliseconds step: UInt64) {
    // A test may set any time, and the steady time never goes back: each stops at its end.
    move {
      $0.milliseconds += min(step, UInt64.max - $0.milliseconds)
      $0.steadyMilliseconds += min(step, UInt64.max - $0.steadyMilliseconds)
    }
  }

  /// Sets the clock to another time, as a user or a time server does: no time passes.
  public func set(toMilliseconds time: UInt64) { move { $0.milliseconds = time } }

  private func move(_ body: (inout State) -> Void) {
    let due = state.withLock { state in
      body(&state)
      return state.takeDue()
    }
    for sleeper in due { sleeper.continuation.resume() }
  }

  /// Waits until a test has moved the clock to a time, or past it.
  public func sleep(until milliseconds: UInt64) async throws {
    let id = state.withLock { state in
      state.nextSleeper += 1
      return state.nextSleeper
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          if state.cancelled.remove(id) != nil || state.milliseconds >= milliseconds {
            return true
          }
          state.sleepers[id] = Sleeper(time: milliseconds, continuation: continuation)
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      let sleeper = state.withLock { state in
        let sleeper = state.sleepers.removeValue(forKey: id)
        if sleeper == nil { state.cancelled.insert(id) }
        return sleeper
      }
      sleeper?.continuation.resume()
    }
    _ = state.withLock { $0.cancelled.remove(id) }
    try Task.checkCancellation()
  }
}
