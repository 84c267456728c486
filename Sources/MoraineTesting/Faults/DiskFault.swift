import MoraineStorage
import Synchronization
import SystemPackage

/// A fault of a simulated disk while one store has it open.
///
/// ```swift
/// let full = DiskFault(.noSpace, on: [.write, .allocate], occurrence: 3, isPermanent: true)
/// let store = try disk.openStore(faults: [full])
/// ```
public struct DiskFault: Hashable, Sendable {
  /// The calls of the engine, by their effect.
  public enum Operation: String, CaseIterable, Hashable, Sendable {
    /// Opening an existing file.
    case open
    /// Creating a file or a directory.
    case create
    /// Reading the names in a directory.
    case list
    /// Renaming a file.
    case rename
    /// Removing a file.
    case remove
    /// Reading a file.
    case read
    /// Writing to a file.
    case write
    /// Allocating space before it is written.
    case allocate
    /// Changing the length of a file.
    case truncate
    /// Mapping a file.
    case map
    /// Acquiring a lock.
    case lock
    /// `fdatasync` of a file.
    case sync
    /// `fsync` of a directory, or of its parent.
    case syncDirectory
  }

  /// The result of the call.
  public enum Effect: Hashable, Sendable {
    /// EIO: the device failed.
    case ioError
    /// ENOSPC: the disk is full.
    case noSpace
    /// EMFILE: the process has too many files open.
    case tooManyOpenFiles
    /// EINTR, from a call that cannot be repeated.
    case interrupted
    /// A write or an allocation processes the given number of bytes and then fails with EIO. Other
    /// calls fail at once.
    case short(lengthBytes: Int)
    /// A sync fails with EIO and drops the bytes that it should have written: the next sync
    /// succeeds, and the bytes are lost after a crash. Other calls fail with EIO.
    case dropsUnsynced
  }

  /// Result of the calls that fail.
  public var effect: Effect
  /// Calls that count; nil for all.
  public var operations: Set<Operation>?
  /// Name of the file in the directory of the store; nil for all files.
  public var file: String?
  /// Number of the counted call that fails, from 1.
  public var occurrence: Int
  /// Whether all later counted calls fail, too.
  public var isPermanent: Bool

  /// Creates a fault of one call, or of all calls from one on.
  public init(
    _ effect: Effect, on operations: Set<Operation>? = nil, file: String? = nil,
    occurrence: Int = 1, isPermanent: Bool = false
  ) {
    self.effect = effect
    self.operations = operations
    self.file = file
    self.occurrence = occurrence
    self.isPermanent = isPermanent
  }

  func matches(_ event: StorageEvent) -> Bool {
    if let operations, !operations.contains(Operation(event.operation)) { return false }
    return file == nil || file == event.file
  }
}

extension DiskFault.Operation {
  init(_ operation: StorageEvent.Operation) {
    self =
      switch operation {
      case .openDirectory, .openFile: .open
      case .createDirectory, .createFile, .share: .create
      case .entries, .freeBytes, .isInPlace, .stamp, .length: .list
      case .rename: .rename
      case .remove: .remove
      case .read, .readMedium: .read
      case .write: .write
      case .allocate: .allocate
      case .truncate: .truncate
      case .map: .map
      case .lock: .lock
      case .synchronizeData, .synchronizeFull: .sync
      case .synchronizeDirectory, .synchronizeParent: .syncDirectory
      }
  }
}

extension DiskFault.Effect {
  var errno: Errno {
    switch self {
    case .ioError, .short, .dropsUnsynced: .ioError
    case .noSpace: .noSpace
    case .tooManyOpenFiles: .tooManyOpenFiles
    case .interrupted: .interrupted
    }
  }

  func fault(for operation: StorageEvent.Operation) -> StorageFault {
    switch self {
    case .short(let lengthBytes) where operation == .write || operation == .allocate:
      .partial(lengthBytes: lengthBytes, errno)
    case .dropsUnsynced where operation == .synchronizeData || operation == .synchronizeFull:
      .dropUnsynced(errno)
    default: .fail(errno)
    }
  }
}
