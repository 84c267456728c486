import Subprocess
import Synchronization

/// Ends one process: at the moment that was chosen for it, or when it no longer answers.
final class ChildControl: Sendable {
  /// Why the process was killed.
  enum Reason: Sendable {
    case planned, hung, violation
  }

  private struct State {
    var deadline: ContinuousClock.Instant
    var reason: Reason?
    var isOver = false
  }

  private let timeout: Duration
  private let send: @Sendable () -> Void
  private let state: Mutex<State>
  private let pauses: AsyncStream<Duration>
  private let pausesEnd: AsyncStream<Duration>.Continuation

  /// - Parameter send: sends SIGKILL.
  init(timeout: Duration, _ send: @escaping @Sendable () -> Void) {
    self.timeout = timeout
    self.send = send
    state = Mutex(State(deadline: .now + timeout))
    (pauses, pausesEnd) = AsyncStream.makeStream()
  }

  /// Why the process was killed, if it was.
  var reason: Reason? { state.withLock { $0.reason } }

  /// The process showed that it is alive.
  func touch() { state.withLock { $0.deadline = .now + timeout } }

  /// Kills now. The first reason stays.
  func kill(_ reason: Reason) {
    state.withLock { state in
      guard state.reason == nil, !state.isOver else { return }
      state.reason = reason
      send()
    }
  }

  /// Kills after a pause, beside whatever the caller goes on with.
  func kill(afterMicroseconds pause: Int) {
    guard pause > 0 else { return kill(.planned) }
    pausesEnd.yield(.microseconds(pause))
  }

  /// No kill from now on: the process has ended, and its number may be someone else's.
  func finish() {
    state.withLock { $0.isOver = true }
    pausesEnd.finish()
  }

  /// Carries out the planned kill.
  func runPlan() async {
    for await pause in pauses {
      do { try await Task.sleep(for: pause) } catch { return }
      kill(.planned)
    }
  }

  /// Kills a process that shows no sign of life for too long.
  func watch() async {
    while true {
      let (deadline, isOver) = state.withLock { ($0.deadline, $0.isOver) }
      if isOver { return }
      if deadline <= .now { return kill(.hung) }
      do { try await Task.sleep(until: deadline) } catch { return }
    }
  }
}
