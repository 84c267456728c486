import MoraineFormat
import MoraineStorage
import Synchronization

extension CommitPipeline {
  /// Waits until the sequence is durable. Answers the error of the sync that should have done it.
  func waitUntilDurable(_ sequence: UInt64) async throws(StoreError) {
    if durableSequence.load(ordering: .acquiring) >= sequence { return }
    let error = await withUnsafeContinuation { continuation in
      let refusal: StoreError?? = monitor.withLock { state in
        if let poison = state.poison { return .some(poison) }
        if durableSequence.load(ordering: .acquiring) >= sequence { return .some(nil) }
        if state.isStopped { return .some(StoreError(.closed, "the store was closed")) }
        state.waiters.append(Waiter(sequence: sequence, continuation: continuation))
        return nil
      }
      if let refusal { continuation.resume(returning: refusal) } else { wake() }
    }
    if let error { throw error }
  }

  /// Waits for all that was appended before the call.
  ///
  /// Not for the last sequence number: a failed operation has used that up, and never becomes
  /// durable.
  func waitUntilAllDurable() async throws(StoreError) {
    try await waitUntilDurable(appendedSequence.load(ordering: .acquiring))
  }

  /// Asks for a sync at the latest after the duration; returns at once.
  @inline(__always)
  func syncWithin(_ duration: Duration) {
    let delay = Self.nanoseconds(duration)
    if !hasSync(withinNanoseconds: delay) { setDeadline(delay) }
  }

  private static func nanoseconds(_ duration: Duration) -> UInt64 {
    let (seconds, attoseconds) = duration.components
    let wait = UInt64(clamping: seconds).multipliedReportingOverflow(by: 1_000_000_000)
    return wait.overflow
      ? UInt64.max / 4
      : min(
        UInt64.max / 4, wait.partialValue &+ UInt64(clamping: attoseconds) / 1_000_000_000)
  }
}
