import Synchronization

/// A gate that holds requests to a store of objects until it is opened, and reports when the first
/// request has reached it.
///
/// Waiting tasks occupy no thread. For tests: a request that hangs, without a clock.
public final class RequestGate: Sendable {
  private struct State {
    var isOpen = false
    var arrivals = 0
    var lastID: UInt64 = 0
    /// Requests that wait; each is resumed with whether the gate was opened.
    var waiting: [UInt64: CheckedContinuation<Bool, Never>] = [:]
    /// Requests whose task was cancelled before they began to wait.
    var cancelled: Set<UInt64> = []
    var watchers: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// Creates a closed gate.
  public init() {}

  /// Number of requests that have reached the gate.
  public var arrivalCount: Int { state.withLock { $0.arrivals } }

  /// Opens the gate for all requests, now and later.
  public func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [:] }
      return state.waiting
    }
    for continuation in waiting.values { continuation.resume(returning: true) }
  }

  /// Waits until a request has reached the gate.
  public func arrival() async {
    await withCheckedContinuation { continuation in
      let hasArrived = state.withLock { state in
        if state.arrivals == 0 { state.watchers.append(continuation) }
        return state.arrivals > 0
      }
      if hasArrived { continuation.resume() }
    }
  }

  /// Waits until the gate is open. Returns false when the task was cancelled before.
  package func pass() async -> Bool {
    let (id, watchers) = state.withLock { state in
      state.arrivals += 1
      state.lastID += 1
      defer { state.watchers = [] }
      return (state.lastID, state.watchers)
    }
    for watcher in watchers { watcher.resume() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { wait(id, $0) }
    } onCancel: {
      cancel(id)
    }
  }

  private func wait(_ id: UInt64, _ continuation: CheckedContinuation<Bool, Never>) {
    let answer: Bool? = state.withLock { state in
      if state.cancelled.remove(id) != nil { return false }
      if state.isOpen { return true }
      state.waiting[id] = continuation
      return nil
    }
    if let answer { continuation.resume(returning: answer) }
  }

  private func cancel(_ id: UInt64) {
    let waiting = state.withLock { state in
      let waiting = state.waiting.removeValue(forKey: id)
      if waiting == nil, !state.isOpen { state.cancelled.insert(id) }
      return waiting
    }
    waiting?.resume(returning: false)
  }
}
