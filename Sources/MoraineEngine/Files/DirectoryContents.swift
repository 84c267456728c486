import MoraineFormat
import MoraineStorage

/// The files of a directory, sorted by their role in a store.
struct DirectoryContents {
  var hasManifest = false
  var hasTemporaryManifest = false
  var reserveBytes: UInt64 = 0
  var checkpoints: [SegmentNumber] = []
  var hasTemporaryCheckpoint = false
  var hasTemporarySegment = false
  /// Whether a restore is under way, or was interrupted.
  var isRestoring = false
  /// The segment files, with their lengths.
  var segments: [SegmentNumber: UInt64] = [:]
  /// Files that do not belong to the store: ignored and reported.
  var foreign: [String] = []

  var hasStore: Bool { hasManifest || !segments.isEmpty }

  init(_ directory: any StorageDirectory) throws(StoreError) {
    let entries = try storing { () throws(StorageError) in try directory.entries() }
    for entry in entries.sorted(by: { $0.name < $1.name }) {
      let number = SegmentNumber(fileName: entry.name)
      let checkpoint = FileName.checkpointNumber(entry.name)
      let isOurs =
        number != nil || checkpoint != nil || FileName.others.contains(entry.name)
      guard isOurs else {
        foreign.append(entry.name)
        continue
      }
      guard entry.kind == .regular else {
        throw StoreError(
          .notAStore, "a store's file must be a regular file, not a link or a directory",
          file: entry.name)
      }
      if let number { segments[number] = entry.lengthBytes }
      if let checkpoint { checkpoints.append(checkpoint) }
      hasTemporaryCheckpoint =
        hasTemporaryCheckpoint || entry.name == FileName.temporaryCheckpoint
      hasTemporarySegment = hasTemporarySegment || entry.name == FileName.temporarySegment
      hasManifest = hasManifest || entry.name == Manifest.fileName
      hasTemporaryManifest = hasTemporaryManifest || entry.name == Manifest.temporaryFileName
      isRestoring = isRestoring || entry.name == FileName.restoring
      if entry.name == FileName.reserve { reserveBytes = entry.lengthBytes }
    }
  }
}

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

  static let checkpointExtension = ".index"

  static func checkpoint(_ number: SegmentNumber) -> String {
    String(number.fileName.dropLast(".segment".count)) + checkpointExtension
  }

  /// Returns the number in the name of a checkpoint; nil for another file.
  static func checkpointNumber(_ name: String) -> SegmentNumber? {
    guard name.hasSuffix(checkpointExtension) else { return nil }
    return SegmentNumber(fileName: String(name.dropLast(checkpointExtension.count)) + ".segment")
  }
}
