import MoraineFormat

/// Names of the files in a store's directory. ``Manifest`` defines the names of manifests,
/// ``SegmentNumber`` those of segments.
enum FileName {
  /// The file with the kernel's lock on the store.
  static let lock = "LOCK"
  static let reserve = "RESERVE"
  /// The file with the page of a shared store.
  static let sharedPage = "SHARED"
  /// The file with the lock of the process that appends to a shared store.
  static let writerLock = "WRITER"
  /// The file with the lock of the process that rewrites segments of a shared store.
  static let compactorLock = "COMPACTOR"
  static let temporaryCheckpoint = "INDEX.tmp"
  static let temporarySegment = "SEGMENT.tmp"
  /// The manifest of a store that is being restored, until all of the store is checked.
  static let restoring = "RESTORING"

  /// Files other than segments and checkpoints.
  static let others: Set<String> = [
    Manifest.fileName, Manifest.temporaryFileName, lock, reserve, sharedPage, writerLock,
    compactorLock, temporaryCheckpoint, temporarySegment, restoring,
  ]
  /// Files that all processes of a shared store must have in common.
  static let shared = [sharedPage, writerLock, compactorLock]

  private static let checkpointExtension = ".index"

  static func checkpoint(_ number: SegmentNumber) -> String {
    String(number.fileName.dropLast(".segment".count)) + checkpointExtension
  }

  /// Returns the number in the name of a checkpoint; nil for another file.
  static func checkpointNumber(_ name: String) -> SegmentNumber? {
    guard name.hasSuffix(checkpointExtension) else { return nil }
    return SegmentNumber(fileName: String(name.dropLast(checkpointExtension.count)) + ".segment")
  }
}
