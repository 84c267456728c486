package import MoraineStorage
import Synchronization
package import SystemPackage

/// A disk in memory that knows what a power failure would leave of it.
///
/// Bytes and lengths are safe once their file was synced, names once their directory was. All else
/// may be there after a crash or not, in any combination: ``image(_:)`` draws one. Production and
/// simulation share every line of the engine.
///
/// Thread safety: the names are behind one lock; the bytes are those of ``MemoryStorage``.
package final class SimulatedDisk: Storage {
  private let memory = MemoryStorage()
  private let directories = Mutex<[String: SimulatedNames]>([:])
  private let observer = Mutex<(@Sendable () -> Void)?>(nil)

  package init() {}

  /// Called before every call that may change the disk, on the thread of the call.
  package func setObserver(_ body: (@Sendable () -> Void)?) { observer.withLock { $0 = body } }

  func willChange() {
    let body = observer.withLock { $0 }
    body?()
  }

  package func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    guard let base = try memory.openDirectory(path) else { return nil }
    return SimulatedDirectory(base, names(at: path), self)
  }

  /// As on the real disk, the new name is made durable at once.
  package func createDirectory(_ path: FilePath) throws(StorageError) {
    willChange()
    try memory.createDirectory(path)
    _ = names(at: path)
  }

  private func names(at path: FilePath) -> SimulatedNames {
    directories.withLock { directories in
      if let names = directories[path.string] { return names }
      let names = SimulatedNames()
      directories[path.string] = names
      return names
    }
  }

  /// The disk as a crash at this moment may leave it; this one goes on as before.
  package func image(_ policy: CrashPolicy) throws(StorageError) -> SimulatedDisk {
    let result = SimulatedDisk()
    var choice = CrashChoice(policy)
    let paths = directories.withLock { $0 }
    for (path, names) in paths.sorted(by: { $0.key < $1.key }) {
      try result.createDirectory(FilePath(path))
      guard let target = try result.openDirectory(FilePath(path)) else { continue }
      for (name, bytes) in try names.survivors(&choice) {
        let file = try target.createFile(name)
        try write(bytes, to: file)
        try file.synchronize(.full)
      }
      try target.synchronize()
    }
    return result
  }

  private func write(_ bytes: [UInt8], to file: any StorageFile) throws(StorageError) {
    try bytes.withUnsafeBufferPointer { (buffer) throws(StorageError) in
      try file.write(UnsafeRawBufferPointer(buffer), at: 0)
    }
  }
}
