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
