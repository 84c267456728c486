package import SystemPackage

/// One call at the storage seam.
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

  /// Counted from 0, from the first call on.
  package let index: Int
  package let operation: Operation
  /// The name within the store's directory; the path, for directories.
  package let file: String

  package var description: String { "#\(index) \(operation.rawValue) \(file)" }
}

/// What befalls a call.
package enum StorageFault: Sendable {
  /// It does nothing and fails.
  case fail(Errno)
  /// A write or an allocation does so many bytes and then fails.
  case partial(lengthBytes: Int, Errno)
  /// A sync fails, and what it should have written counts as written from then on: the next sync
  /// succeeds without it. On a disk that cannot simulate that, as ``fail(_:)``.
  case dropUnsynced(Errno)
  /// It waits until the gate opens, and then does its work.
  case hang(Gate)
}
