import MoraineStorage
import Synchronization

/// Relay that delivers events to the handler: one at a time, in the order in which they happened.
///
/// The handler runs on a thread of the pool's `lasting` crew. So it may be slow: no writer, no sync
/// and none of Swift's threads waits for it. It never runs in the middle of a change of the store.
/// Events are rare, and few of them wait. Where the system refuses a thread, events wait until the
/// next call of ``send(_:)``.
///
/// Thread safety: the mutex protects all mutable state, and the handler is called without the
/// mutex.
final class EventRelay: PoolWork {
  private struct State {
    var waiting: [StoreEvent] = []
    var isDelivering = false
    /// Tasks that wait until all events have been delivered.
    var listeners: [UnsafeContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())
  private let handler: @Sendable (StoreEvent) -> Void
  private let forkGeneration = CurrentProcess.forkGeneration

  /// Creates a relay; nil when there is no handler.
  init?(_ handler: (@Sendable (StoreEvent) -> Void)?) {
    guard let handler else { return nil }
    self.handler = handler
  }

  /// In a forked child the mutex may be held for ever, and the events are the parent's.
  private var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  /// Adds an event to those that wait for delivery; returns at once.
  func send(_ event: StoreEvent) {
    guard isInItsProcess else { return }
    let begins = state.withLock { state in
      assert(
        state.isDelivering || state.listeners.isEmpty, "tasks wait for events of an idle relay")
      state.waiting.append(event)
      defer { state.isDelivering = true }
      return !state.isDelivering
    }
    if begins { ThreadPool.current.submit(self, to: .lasting) }
  }

  package func step() -> Bool {
    guard let events = next() else { return false }
    for event in events { handler(event) }
    return true
  }

  package func refuse(_ error: StorageError) {
    let listeners = state.withLock { state in
      assert(state.isDelivering, "the pool refuses a relay that it does not have")
      state.isDelivering = false
      defer { state.listeners = [] }
      return state.listeners
    }
    for listener in listeners { listener.resume() }
  }

  /// Returns the events that wait; nil when there are none.
  private func next() -> [StoreEvent]? {
    var events: [StoreEvent] = []
    var listeners: [UnsafeContinuation<Void, Never>] = []
    state.withLock { state in
      assert(state.isDelivering, "an idle relay delivers events")
      swap(&events, &state.waiting)
      guard events.isEmpty else { return }
      state.isDelivering = false
      swap(&listeners, &state.listeners)
    }
    for listener in listeners { listener.resume() }
    return events.isEmpty ? nil : events
  }

  /// Waits until the handler has returned from all events that were added before the call.
  func delivered() async {
    guard isInItsProcess else { return }
    await withUnsafeContinuation { continuation in
      let isIdle = state.withLock { state in
        if state.isDelivering { state.listeners.append(continuation) }
        return !state.isDelivering
      }
      if isIdle { continuation.resume() }
    }
  }
}
