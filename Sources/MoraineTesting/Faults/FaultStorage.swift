package import MoraineStorage
import Synchronization
package import SystemPackage

/// Any storage, with a script that makes calls fail, stop half-way or hang, and a trace of them
/// all.
///
/// Thread safety: one lock protects script and trace; it is not held while a call runs.
package final class FaultStorage: Storage {
  package typealias Script = @Sendable (StorageEvent) -> StorageFault?

  private struct State {
    var script: Script?
    var trace: [StorageEvent] = []
  }

  private let base: any Storage
  private let state = Mutex(State())

  /// - Parameter base: where the calls go that nothing befalls.
  package init(_ base: any Storage) {
    self.base = base
  }

  /// Every call so far, in order, also those that failed.
  package var trace: [StorageEvent] { state.withLock { $0.trace } }

  /// From now on the script decides over each call. It is called under a lock, and must not call
  /// the storage.
  package func setScript(_ script: Script?) { state.withLock { $0.script = script } }

  /// Forgets the trace; the next call has index 0.
  package func clearTrace() { state.withLock { $0.trace = [] } }

  /// Notes a call and does what the script says.
  ///
  /// - Returns: how many bytes to do before failing, when it shall not just fail.
  func meet(
    _ operation: StorageEvent.Operation, _ file: String
  ) throws(StorageError) -> (lengthBytes: Int, errno: Errno)? {
    let fault = state.withLock { state in
      let event = StorageEvent(index: state.trace.count, operation: operation, file: file)
      state.trace.append(event)
      return state.script?(event)
    }
    switch fault {
    case nil: return nil
    case .fail(let errno):
      throw StorageError("\(operation.rawValue) (fault)", file: file, errno: errno)
    case .partial(let lengthBytes, let errno): return (lengthBytes, errno)
    case .dropUnsynced(let errno): return (0, errno)
    case .hang(let gate):
      gate.pass()
      return nil
    }
  }

  package func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    _ = try meet(.openDirectory, path.string)
    return try base.openDirectory(path).map { FaultDirectory($0, self) }
  }

  package func absolute(_ path: FilePath) throws(StorageError) -> FilePath {
    try base.absolute(path)
  }

  package func createDirectory(_ path: FilePath) throws(StorageError) {
    _ = try meet(.createDirectory, path.string)
    try base.createDirectory(path)
  }

  /// A question, which changes nothing and is no call that a script counts.
  package func checkWritable(_ path: FilePath) throws(StorageError) {
    try base.checkWritable(path)
  }
}
