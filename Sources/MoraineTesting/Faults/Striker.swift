import MoraineStorage
import Synchronization

/// One call of one life of a store: the n-th of its kind on its file. Stays the same from run to
/// run, whatever the committing thread does meanwhile.
struct StorageCall: Hashable, Sendable, CustomStringConvertible {
  let life: Int
  let operation: StorageEvent.Operation
  let file: String
  let number: Int
  var description: String { "life \(life), \(operation.rawValue) \(number) of \(file)" }
}

/// Strikes at one call, perhaps also at later ones of that life, and notes all calls.
final class Striker: Sendable {
  private struct State {
    var counts: [StorageCall: Int] = [:]
    var calls: [StorageCall] = []
    var hasStruck = false
  }

  private let target: StorageCall?
  private let effect: DiskFault.Effect
  private let isForEver: Bool
  private let state = Mutex(State())

  init(_ target: StorageCall?, _ effect: DiskFault.Effect, isForEver: Bool) {
    self.target = target
    self.effect = effect
    self.isForEver = isForEver
  }

  var calls: [StorageCall] { state.withLock { $0.calls } }
  var hasStruck: Bool { state.withLock { $0.hasStruck } }

  func script(life: Int) -> FaultStorage.Script {
    { [self] event in
      state.withLock { state in
        let kind = StorageCall(life: life, operation: event.operation, file: event.file, number: 0)
        let number = state.counts[kind, default: 0] + 1
        state.counts[kind] = number
        let call = StorageCall(
          life: life, operation: event.operation, file: event.file, number: number)
        if target == nil { state.calls.append(call) }
        if call == target { state.hasStruck = true }
        let isLater = isForEver && state.hasStruck && life == target?.life
        guard call == target || (isLater && effect.befalls(event.operation)) else { return nil }
        return effect.fault(for: event.operation)
      }
    }
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
