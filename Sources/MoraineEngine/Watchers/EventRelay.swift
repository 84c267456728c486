import MoraineStorage
import Synchronization

/// Tells events to whoever asked for them: one at a time, in the order they happened.
///
/// On a thread of the pool's `lasting` crew: a handler may be slow then, without a writer, a sync
/// or one of Swift's threads waiting for it, and it never runs in the middle of a change of the
/// store. Events are rare; those that wait are few. Where the system refuses a thread, events wait
/// for the next one that is told.
///
/// Thread safety: all that changes is behind the mutex, and the handler is called without it.
final class EventRelay: PoolWork {
  private struct State {
    var waiting: [StoreEvent] = []
    var isTelling = false
    /// Who wants to know when all has been told.
    var listeners: [UnsafeContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())
  private let handler: @Sendable (StoreEvent) -> Void
  private let forkGeneration = CurrentProcess.forkGeneration

  /// Nil when there is nobody to tell.
  init?(_ handler: (@Sendable (StoreEvent) -> Void)?) {
    guard let handler else { return nil }
    self.handler = handler
  }

  /// In a forked child the mutex may be held for ever, and what happens is the parent's.
  private var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  /// Has the event told after those that wait; returns at once.
  func tell(_ event: StoreEvent) {
    guard isInItsProcess else { return }
    let begins = state.withLock { state in
      state.waiting.append(event)
      defer { state.isTelling = true }
      return !state.isTelling
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
      state.isTelling = false
      defer { state.listeners = [] }
      return state.listeners
    }
    for listener in listeners { listener.resume() }
  }

  /// Nil when there is nothing left.
  private func next() -> [StoreEvent]? {
    var events: [StoreEvent] = []
    var listeners: [UnsafeContinuation<Void, Never>] = []
    state.withLock { state in
      swap(&events, &state.waiting)
      guard events.isEmpty else { return }
      state.isTelling = false
      swap(&listeners, &state.listeners)
    }
    for listener in listeners { listener.resume() }
    return events.isEmpty ? nil : events
  }

  /// Waits until the handler has returned from all events that were told before.
  func delivered() async {
    guard isInItsProcess else { return }
    await withUnsafeContinuation { continuation in
      let isIdle = state.withLock { state in
        if state.isTelling { state.listeners.append(continuation) }
        return !state.isTelling
      }
      if isIdle { continuation.resume() }
    }
  }
}
