import MoraineStorage
import Synchronization
import SystemPackage

/// Something that goes wrong on a simulated disk, while one store has it open.
///
/// ```swift
/// let full = DiskFault(.noSpace, on: [.write, .allocate], occurrence: 3, isPermanent: true)
/// let store = try disk.openStore(faults: [full])
/// ```
public struct DiskFault: Hashable, Sendable {
  /// The calls of the engine, by what they do.
  public enum Operation: String, CaseIterable, Hashable, Sendable {
    /// Opening a file that is there.
    case open
    /// Making a file or a directory.
    case create
    /// Reading a directory's names.
    case list
    /// Giving a file another name.
    case rename
    /// Taking a file's name away.
    case remove
    /// Reading a file.
    case read
    /// Writing to a file.
    case write
    /// Allocating space ahead of writing.
    case allocate
    /// Changing a file's length.
    case truncate
    /// Mapping a file.
    case map
    /// Taking a lock.
    case lock
    /// `fdatasync` of a file.
    case sync
    /// `fsync` of a directory, or of its parent.
    case syncDirectory
  }

  /// What the call answers.
  public enum Effect: Hashable, Sendable {
    /// EIO: the device failed.
    case ioError
    /// ENOSPC: the disk is full.
    case noSpace
    /// EMFILE: the process has too many files open.
    case tooManyOpenFiles
    /// EINTR, from a call that cannot be repeated.
    case interrupted
    /// A write or an allocation does so many bytes and then fails with EIO; others fail at once.
    case short(lengthBytes: Int)
    /// EIO from a sync that drops what it should have written: the next one succeeds, and the bytes
    /// are gone after a crash. From other calls, just EIO.
    case dropsUnsynced
  }

  /// What goes wrong.
  public var effect: Effect
  /// Which calls count; nil for all.
  public var operations: Set<Operation>?
  /// The name of the file, within the store's directory; nil for all.
  public var file: String?
  /// Which of those calls it strikes, from 1 on.
  public var occurrence: Int
  /// Whether it strikes all later ones too.
  public var isPermanent: Bool

  /// A fault at one call, or from one call on.
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
