import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage

/// One call of one run of a store: the n-th of its kind on its file. The order of these calls is
/// the same in every run, whatever the committing thread does.
struct Call: Hashable, Sendable, CustomStringConvertible {
  let life: Int
  let operation: StorageEvent.Operation
  let file: String
  let number: Int
  var description: String { "life \(life), \(operation.rawValue) \(number) of \(file)" }
}

/// The effect of a fault on the call, and whether it also strikes all later calls of that run.
struct Misfortune: Sendable {
  let errno: Errno
  let isPermanent: Bool
  /// The part of a write or an allocation that is done before it fails.
  let partLengthBytes: Int

  /// Whether the kernel can answer such a call with this error. (``EachCallTests`` has every error
  /// at every call.)
  func befalls(_ operation: StorageEvent.Operation) -> Bool {
    switch errno {
    case .tooManyOpenFiles:
      [.openDirectory, .createDirectory, .entries, .createFile, .openFile].contains(operation)
    case .noSpace:
      operation.isSync
        || [.createDirectory, .createFile, .rename, .write, .allocate].contains(operation)
    default: true
    }
  }

  func fault(for operation: StorageEvent.Operation) -> StorageFault {
    guard partLengthBytes > 0, operation == .write || operation == .allocate else {
      return .fail(errno)
    }
    return .partial(lengthBytes: partLengthBytes, errno)
  }
}

/// Strikes one call, and records all calls.
final class FaultInjector: Sendable {
  private struct State {
    var counts: [Call: Int] = [:]
    var calls: [Call] = []
    var hasStruck = false
  }

  let target: Call?
  private let misfortune: Misfortune
  private let state = Mutex(State())

  init(_ target: Call?, _ misfortune: Misfortune) {
    self.target = target
    self.misfortune = misfortune
  }

  var calls: [Call] { state.withLock { $0.calls } }
  var hasStruck: Bool { state.withLock { $0.hasStruck } }

  func script(life: Int) -> FaultStorage.Script {
    { [self] event in
      state.withLock { state in
        let kind = Call(life: life, operation: event.operation, file: event.file, number: 0)
        state.counts[kind, default: 0] += 1
        let call = Call(
          life: life, operation: event.operation, file: event.file, number: state.counts[kind]!)
        state.calls.append(call)
        if call == target { state.hasStruck = true }
        let isLater = misfortune.isPermanent && state.hasStruck && life == target?.life
        guard call == target || (isLater && misfortune.befalls(event.operation)) else { return nil }
        return misfortune.fault(for: event.operation)
      }
    }
  }
}
