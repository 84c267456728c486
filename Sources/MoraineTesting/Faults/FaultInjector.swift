import MoraineStorage
import Synchronization

/// Makes one or more calls fail, and with permanent faults also later calls of the same opening.
/// Records all calls.
final class FaultInjector: Sendable {
  private struct State {
    var counts: [StorageCall: Int] = [:]
    var calls: [StorageCall] = []
    /// Places of the faults that have occurred.
    var struck: Set<Int> = []
    /// Number of calls before the first fault.
    var quietCallCount: Int?
  }

  let faults: [PlannedFault]
  private let state = Mutex(State())

  init(_ faults: [PlannedFault]) {
    self.faults = faults
  }

  var calls: [StorageCall] { state.withLock { $0.calls } }
  /// Calls after the first fault.
  var laterCalls: [StorageCall] {
    state.withLock { state in
      state.quietCallCount.map { Array(state.calls.dropFirst($0 + 1)) } ?? []
    }
  }
  var strikeCount: Int { state.withLock { $0.struck.count } }
  var hasStruck: Bool { strikeCount > 0 }
  var hasStruckWithAll: Bool { strikeCount == faults.count }
  /// The calls at which the faults have occurred so far. A lasting fault has later ones, too.
  var struckCalls: [StorageCall] { state.withLock { $0.struck.map { faults[$0].call } } }
  /// Faults that have occurred so far.
  var effects: [DiskFault.Effect] { state.withLock { $0.struck.map { faults[$0].effect } } }

  func script(life: Int) -> FaultStorage.Script {
    { [self] event in
      state.withLock { state in
        let kind = StorageCall(life: life, operation: event.operation, file: event.file, number: 0)
        let number = state.counts[kind, default: 0] + 1
        state.counts[kind] = number
        let call = StorageCall(
          life: life, operation: event.operation, file: event.file, number: number)
        state.calls.append(call)
        return strike(call, &state)
      }
    }
  }

  private func strike(_ call: StorageCall, _ state: inout State) -> StorageFault? {
    var answer: StorageFault?
    for (place, fault) in faults.enumerated() {
      let isNow = call == fault.call
      if isNow {
        state.struck.insert(place)
        state.quietCallCount = state.quietCallCount ?? state.calls.count - 1
      }
      let isLater =
        fault.isPermanent && state.struck.contains(place) && call.life == fault.call.life
        && fault.effect.befalls(call.operation)
      // A fault of this call has priority over a permanent fault.
      if isNow || (isLater && answer == nil) { answer = fault.effect.fault(for: call.operation) }
    }
    return answer
  }
}

extension DiskFault.Effect {
  /// Whether a kernel with a lasting fault returns this error for such a call.
  func befalls(_ operation: StorageEvent.Operation) -> Bool {
    switch self {
    case .tooManyOpenFiles:
      [.openDirectory, .createDirectory, .entries, .createFile, .openFile].contains(operation)
    case .noSpace:
      operation.isSync
        || [.createDirectory, .createFile, .rename, .write, .allocate].contains(operation)
    default: true
    }
  }
}
