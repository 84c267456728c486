package import MoraineStorage
import Synchronization
package import SystemPackage

/// A storage in which a script makes calls fail, stop in the middle or hang. It keeps a trace of
/// all calls.
///
/// Thread safety: one lock protects script and trace; it is not held while a call runs.
package final class FaultStorage: Storage {
  package typealias Script = @Sendable (StorageEvent) -> StorageFault?

  private struct State {
    var script: Script?
    var trace: [StorageEvent] = []
    var isCopyOnWrite = false
  }

  private let base: any Storage
  private let state = Mutex(State())

  /// - Parameter base: the storage that performs the calls without a fault.
  package init(_ base: any Storage) {
    self.base = base
  }

  /// Every call so far, in order, including failed calls.
  package var trace: [StorageEvent] { state.withLock { $0.trace } }

  /// Sets the script that decides about each later call. It is called under a lock, and must not
  /// call the storage.
  package func setScript(_ script: Script?) { state.withLock { $0.script = script } }

  /// Whether files refuse ``StorageFile/keepInPlace()``. No event: other storage does nothing in
  /// that call.
  package var isCopyOnWrite: Bool {
    get { state.withLock { $0.isCopyOnWrite } }
    set { state.withLock { $0.isCopyOnWrite = newValue } }
  }

  /// Removes the trace; the next call has index 0.
  package func clearTrace() { state.withLock { $0.trace = [] } }

  /// Records a call, and performs the decision of the script.
  ///
  /// - Returns: number of bytes to process before the call fails; nil when the call fails at once.
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

  /// Query that changes nothing, and that scripts do not count.
  package func checkWritable(_ path: FilePath) throws(StorageError) {
    try base.checkWritable(path)
  }
}
