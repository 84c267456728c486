#if Command
  import Subprocess
  import Synchronization

  /// Ends one process: at the planned moment, or when it no longer answers.
  final class ChildControl: Sendable {
    /// Reason for the kill of a process.
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

    /// Reason for the kill; nil when the process was not killed.
    var reason: Reason? { state.withLock { $0.reason } }

    /// Records that the process showed a sign of life.
    func touch() { state.withLock { $0.deadline = .now + timeout } }

    /// Kills the process now. Only the first reason is kept.
    func kill(_ reason: Reason) {
      state.withLock { state in
        guard state.reason == nil, !state.isOver else { return }
        state.reason = reason
        send()
      }
    }

    /// Kills the process after a pause, while the caller continues.
    func kill(afterMicroseconds pause: Int) {
      guard pause > 0 else { return kill(.planned) }
      pausesEnd.yield(.microseconds(pause))
    }

    /// Prevents all later kills: the process has ended, and the system may give its number to
    /// another one.
    func finish() {
      state.withLock { $0.isOver = true }
      pausesEnd.finish()
    }

    /// Performs the planned kill.
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

  /// The end of one process.
  struct ChildLife<Ending> {
    var ending: Ending
    var status: TerminationStatus
    /// Reason for which the harness killed the process; nil when it did not.
    var killReason: ChildControl.Reason?
    /// Whether the process closed its output and then did not end.
    var isOverdue: Bool
    /// Time from the start of the process to its first answer.
    var restart: Duration?
    var errorOutput: String

    /// Whether the planned kill ended the process.
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

    /// Reads until the process closes its standard error.
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
        // The text helps a reader of a failure. No result depends on it.
      }
    }
  }
#endif
