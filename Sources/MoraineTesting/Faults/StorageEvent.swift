package import SystemPackage

/// A call of the storage interface.
package struct StorageEvent: Hashable, Sendable, CustomStringConvertible {
  package enum Operation: String, Hashable, Sendable, CaseIterable {
    case openDirectory, createDirectory, entries, freeBytes, isInPlace, stamp
    case synchronizeDirectory, synchronizeParent
    case createFile, openFile, rename, remove, share
    case length, read, readMedium, write, allocate, truncate, synchronizeData, synchronizeFull, map,
      lock

    package var isSync: Bool {
      [.synchronizeData, .synchronizeFull, .synchronizeDirectory, .synchronizeParent]
        .contains(self)
    }
  }

  /// Number of the call, from 0.
  package let index: Int
  package let operation: Operation
  /// Name in the directory of the store; for directories the path.
  package let file: String

  package var description: String { "#\(index) \(operation.rawValue) \(file)" }
}

/// The fault of a call.
package enum StorageFault: Sendable {
  /// The call has no effect and fails.
  case fail(Errno)
  /// A write or an allocation processes the given number of bytes and then fails.
  case partial(lengthBytes: Int, Errno)
  /// A sync fails, and the pages that it should have written count as written: the next sync
  /// succeeds without them. On a disk that cannot simulate this, the same as ``fail(_:)``.
  case dropUnsynced(Errno)
  /// The call waits until the gate opens, and then performs its work.
  case hang(Gate)
}
