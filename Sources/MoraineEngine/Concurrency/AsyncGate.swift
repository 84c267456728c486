/// A lock that one task of an actor holds across suspension points, while others wait for it
/// without a thread.
///
/// The gate is part of an actor's state and runs in that actor's isolation: between the end of a
/// wait and the caller's next statement no other task of the actor runs. So a caller that finds the
/// gate free may take it at once.
///
/// Waiting tasks resume in the order in which they began to wait, but a task that arrives in
/// between may come first. ``passOn()`` hands the gate over instead, for callers that must keep
/// their order.
package final class AsyncGate {
  /// Whether a task holds the gate.
  private(set) var isHeld = false
  private var waiting: [UnsafeContinuation<Void, Never>] = []

  package init() {}

  /// The number of tasks that wait.
  var waitingCount: Int { waiting.count }

  /// Waits until no task holds the gate, and takes it.
  package nonisolated(nonsending) func acquire() async {
    await waitUntilFree()
    take()
  }

  /// Takes the gate. No task may hold it.
  func take() {
    precondition(!isHeld, "a task took a gate that another task holds")
    isHeld = true
  }

  /// Waits until no task holds the gate, and leaves it free.
  nonisolated(nonsending) func waitUntilFree() async {
    while isHeld { await waitForWakeUp() }
  }

  /// Waits until the gate is released, or ``wakeAll()`` is called. Another task may hold the gate
  /// then.
  nonisolated(nonsending) func waitForWakeUp() async {
    await withUnsafeContinuation { waiting.append($0) }
  }

  /// Releases the gate, and wakes all tasks that wait.
  package func release() {
    precondition(isHeld, "a task released a gate that no task holds")
    isHeld = false
    wakeAll()
  }

  /// Takes the gate in the order of the calls. Every other holder must end with ``passOn()``.
  nonisolated(nonsending) func acquireInTurn() async {
    guard isHeld else { return take() }
    await waitForWakeUp()
    precondition(isHeld, "the gate was not handed over")
  }

  /// Hands the gate to the task that has waited longest, or releases it when no task waits.
  func passOn() {
    precondition(isHeld, "a task passed on a gate that no task holds")
    if waiting.isEmpty { isHeld = false } else { waiting.removeFirst().resume() }
  }

  /// Wakes all tasks that wait, whether the gate is held or not.
  func wakeAll() {
    let woken = waiting
    waiting = []
    for continuation in woken { continuation.resume() }
  }
}
