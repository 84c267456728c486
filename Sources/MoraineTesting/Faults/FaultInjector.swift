import MoraineStorage
import Synchronization

/// Strikes at one call or at several, perhaps also at later ones of that life, and notes all calls.
final class FaultInjector: Sendable {
  private struct State {
    var counts: [StorageCall: Int] = [:]
    var calls: [StorageCall] = []
    /// The places of the faults that have struck.
    var struck: Set<Int> = []
    /// How many calls there were until the first of them struck.
    var quietCallCount: Int?
  }

  let faults: [PlannedFault]
  private let state = Mutex(State())

  init(_ faults: [PlannedFault]) {
    self.faults = faults
  }

  var calls: [StorageCall] { state.withLock { $0.calls } }
  /// The calls after the first that was struck.
  var laterCalls: [StorageCall] {
    state.withLock { state in
      state.quietCallCount.map { Array(state.calls.dropFirst($0 + 1)) } ?? []
    }
  }
  var strikeCount: Int { state.withLock { $0.struck.count } }
  var hasStruck: Bool { strikeCount > 0 }
  var hasStruckWithAll: Bool { strikeCount == faults.count }
  /// What has struck so far.
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
      // What strikes this very call goes before what lasts.
      if isNow || (isLater && answer == nil) { answer = fault.effect.fault(for: call.operation) }
    }
    return answer
  }
}

extension DiskFault.Effect {
  /// Whether a kernel that is in trouble for long answers such a call so.
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
