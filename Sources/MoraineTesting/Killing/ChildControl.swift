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

/// What came of one process.
struct ChildLife<Ending> {
  var ending: Ending
  var status: TerminationStatus
  /// Why the harness killed it, if it did.
  var killReason: ChildControl.Reason?
  /// It closed its output, and then did not end.
  var isOverdue: Bool
  /// From its start to its first answer.
  var restart: Duration?
  var errorOutput: String

  /// Ended by the kill that was meant for it.
  var isKilled: Bool {
    if case .signaled = status { return killReason == .planned }
    return false
  }
}

/// The last lines of a process's standard error.
final class ErrorTail: Sendable {
  private static let limitBytes = 4096
  private let bytes = Mutex<[UInt8]>([])

  var text: String {
    String(decoding: bytes.withLock { $0.suffix(Self.limitBytes) }, as: UTF8.self)
  }

  /// Reads until the process closes it.
  func collect(_ chunks: SubprocessOutputSequence) async {
    do {
      for try await chunk in chunks {
        bytes.withLock { bytes in
          chunk.withUnsafeBytes { bytes.append(contentsOf: $0) }
          if bytes.count > 16 * Self.limitBytes {
            bytes.removeFirst(bytes.count - Self.limitBytes)
          }
        }
      }
    } catch {
      // What can be read of it helps; nothing depends on it.
    }
  }
}
