import Synchronization

/// The identity of a writer of an archive, whose acknowledgements count until a later one attaches.
package final class ReplicationOwner: Sendable {
  package init() {}
}

/// How far an archive has the log of a store, and the operations that wait for it.
///
/// Thread safety: the state is in a mutex. Continuations are resumed, and the writer of the archive
/// is woken, when no thread has the lock.
final class Replication: Sendable {
  private struct Waiter {
    let sequence: UInt64
    /// The round whose failure does not end the wait, because it had begun before; nil when any
    /// failure does.
    let sparedRound: UInt64?
    let continuation: UnsafeContinuation<StoreError?, Never>
  }

  private struct State {
    /// The last operation that the archive has.
    var archived: UInt64 = 0
    /// The same, or a later number that a failed append has used up: in this stay in the directory,
    /// no operation gets it.
    var sequence: UInt64 = 0
    /// The number of the stay; see ``CommitPipeline/stay``.
    var stay: UInt64 = 0
    var waiters: [Waiter] = []
    /// The number of the last round of shipping that has begun.
    var round: UInt64 = 0
    /// The writer that is attached.
    var owner: ReplicationOwner?
    /// Wakes the writer of the archive; nil when none is attached.
    var wake: (@Sendable () -> Void)?
    /// Why the archive cannot confirm anything now.
    var failure: StoreError?
    /// Why it never will again.
    var refusal: StoreError?
  }

  private let state = Mutex(State())

  /// The last operation that the archive has; 0 when no writer is attached.
  var sequence: UInt64 { state.withLock { $0.wake == nil ? 0 : $0.sequence } }

  /// Begins with the writer of an archive.
  func attach(_ owner: ReplicationOwner, _ wake: @escaping @Sendable () -> Void) {
    state.withLock { state in
      (state.owner, state.wake, state.failure) = (owner, wake, nil)
      (state.archived, state.sequence) = (0, 0)
    }
  }

  /// Records that a round of shipping begins, with everything that was appended before the call.
  func beginRound(_ owner: ReplicationOwner) {
    state.withLock { state in
      if state.owner === owner { state.round += 1 }
    }
  }

  /// Records that the store has its directory again. A number that only the memory had may now be
  /// that of another operation.
  func beginStay(_ number: UInt64) {
    state.withLock { state in (state.stay, state.sequence) = (number, state.archived) }
  }

  /// Records that the archive has all operations up to a number.
  ///
  /// - Parameters:
  ///   - used: the last number that was used up. No operation has those after `sequence`.
  ///   - stay: the stay in which that was so.
  func acknowledge(
    _ owner: ReplicationOwner, through sequence: UInt64, used: UInt64 = 0, stay: UInt64 = 0
  ) {
    let ready = state.withLock { state -> [Waiter] in
      guard state.owner === owner else { return [] }
      state.failure = nil
      state.archived = max(state.archived, sequence)
      state.sequence = max(state.sequence, sequence, stay == state.stay ? used : 0)
      let ready = state.waiters.filter { $0.sequence <= state.sequence }
      if !ready.isEmpty { state.waiters.removeAll { $0.sequence <= state.sequence } }
      return ready
    }
    for waiter in ready { waiter.continuation.resume(returning: nil) }
  }

  /// Records that the archive cannot be reached: the operations that wait, and those that come
  /// before the next success, get the error. A patient wait that began within the round goes on
  /// until the next round ends, which it has asked for.
  func fail(_ owner: ReplicationOwner, _ error: StoreError) {
    fail(with: error, isLast: false) { $0.owner === owner }
  }

  /// - Parameters:
  ///   - isLast: whether no round follows.
  ///   - isMeant: returns whether the error counts, and changes the state. It runs under the same
  ///     lock as the failure is noted: a writer that attaches later gets no earlier one's error.
  private func fail(
    with error: StoreError, isLast: Bool, if isMeant: (inout State) -> Bool
  ) {
    let ended = state.withLock { state -> [Waiter] in
      guard isMeant(&state) else { return [] }
      state.failure = error
      let (round, waiting) = (state.round, state.waiters)
      state.waiters = isLast ? [] : waiting.filter { $0.sparedRound == round }
      return isLast ? waiting : waiting.filter { $0.sparedRound != round }
    }
    for waiter in ended { waiter.continuation.resume(returning: error) }
  }

  /// Records that the writer of the archive has ended.
  func detach(_ owner: ReplicationOwner, _ error: StoreError) {
    fail(with: error, isLast: true) { state in
      guard state.owner === owner else { return false }
      (state.owner, state.wake) = (nil, nil)
      return true
    }
  }

  /// Ends all waiting for good.
  func refuse(_ error: StoreError) {
    fail(with: error, isLast: true) { state in
      if state.refusal == nil { state.refusal = error }
      return true
    }
  }

  /// Waits until the archive has an operation, which is durable here.
  ///
  /// - Parameter isPatient: whether to wait for another round after one has failed. Without it the
  ///   call throws at once until a round succeeds.
  /// - Throws: `.archiveUnavailable`; the error of ``refuse(_:)``.
  func wait(until sequence: UInt64, isPatient: Bool = false) async throws(StoreError) {
    var wake: (@Sendable () -> Void)?
    let error = await withUnsafeContinuation { continuation in
      let answer: StoreError?? = state.withLock { state in
        if state.wake != nil, state.sequence >= sequence { return .some(nil) }
        if let refusal = state.refusal { return refusal }
        guard let signal = state.wake else { return Self.noWriter }
        if let failure = state.failure, !isPatient { return failure }
        let spared = isPatient ? state.round : nil
        state.waiters.append(
          Waiter(sequence: sequence, sparedRound: spared, continuation: continuation))
        wake = signal
        return nil
      }
      if let answer { continuation.resume(returning: answer) }
      wake?()
    }
    if let error { throw error }
  }

  private static let noWriter = StoreError(
    .archiveUnavailable,
    "no writer of an archive is attached to the store; the operation is durable here only")
}
