import MoraineFormat

/// The names of the files in a store's directory. The manifest's stand in ``Manifest``, those of
/// segments in ``SegmentNumber``.
enum FileName {
  /// The kernel's lock on the store.
  static let lock = "LOCK"
  static let reserve = "RESERVE"
  /// The page of a shared store.
  static let sharedPage = "SHARED"
  /// The lock of the process that appends to a shared store.
  static let writerLock = "WRITER"
  /// The lock of the process that rewrites segments of a shared store.
  static let compactorLock = "COMPACTOR"
  static let temporaryCheckpoint = "INDEX.tmp"
  static let temporarySegment = "SEGMENT.tmp"
  /// The manifest of a store that is being restored, until all of it is checked.
  static let restoring = "RESTORING"

  /// Files besides segments and checkpoints.
  static let others: Set<String> = [
    Manifest.fileName, Manifest.temporaryFileName, lock, reserve, sharedPage, writerLock,
    compactorLock, temporaryCheckpoint, temporarySegment, restoring,
  ]
  /// What a process of a shared store must have in common with the others.
  static let shared = [sharedPage, writerLock, compactorLock]

  private static let checkpointExtension = ".index"

  static func checkpoint(_ number: SegmentNumber) -> String {
    String(number.fileName.dropLast(".segment".count)) + checkpointExtension
  }

  /// The number in a checkpoint's name; nil for another file.
  static func checkpointNumber(_ name: String) -> SegmentNumber? {
    guard name.hasSuffix(checkpointExtension) else { return nil }
    return SegmentNumber(fileName: String(name.dropLast(checkpointExtension.count)) + ".segment")
  }
}
