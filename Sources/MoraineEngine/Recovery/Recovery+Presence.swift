import MoraineFormat
import MoraineStorage

/// Whether the files in the directory are those that the manifest lists.
extension Recovery {
  func checkPresence(_ manifest: Manifest) throws(StoreError) {
    // One may be on its way to be sealed while the next is appended to.
    let open = manifest.segments.drop(while: \.isSealed)
    guard open.count <= 2, !open.contains(where: \.isSealed) else {
      throw .corrupted(
        "open segments that are not the last ones, or too many", Manifest.fileName,
        at: Manifest.fixedLength)
    }
    let missing = manifest.segments.filter { listing.segments[$0.number] == nil }
    guard missing.isEmpty else {
      let names = missing.map(\.number.fileName).joined(separator: ", ")
      throw StoreError(
        .corrupted, "segments that the manifest lists are missing: \(names); restore them",
        file: missing.first?.number.fileName)
    }
  }

  /// Segment files that the manifest does not list: leftovers, or the sign of a stale manifest.
  func checkUnlisted(
    _ state: borrowing EngineState, _ report: inout RecoveryReport
  ) throws(StoreError) {
    let listed = Set(state.manifest.segments.map(\.number))
    let directory = state.directory
    let unlisted = listing.segments.keys.sorted().filter { !listed.contains($0) }
    // What a backup that was interrupted has brought, or has not taken away.
    if state.manifest.isBackup { return }
    for number in unlisted {
      let name = number.fileName
      guard let (header, source) = try readableStart(directory, name),
        header.storeID == state.manifest.storeID
      else {
        report.foreignFiles.append(name)
        continue
      }
      // What a compaction wrote and did not publish is a copy of what is listed.
      if header.generation > state.manifest.generation, !header.flags.contains(.compacted),
        try holdsRecords(source, name, header)
      {
        throw StoreError(
          .corrupted,
          "the manifest is older than segment \(number), which it does not list; "
            + "a stale copy was put in its place",
          file: Manifest.fileName)
      }
      guard !isReadOnly else {
        report.unlistedFiles.append(name)
        continue
      }
      try storing { () throws(StorageError) in try directory.remove(name) }
      report.removedFiles.append(name)
    }
    guard !isReadOnly else { return }
    var temporary: [String] = []
    if listing.hasTemporaryManifest { temporary.append(Manifest.temporaryFileName) }
    if listing.isRestoring { temporary.append(RestoringDirectory.manifestName) }
    if listing.hasTemporarySegment { temporary.append(SegmentCarrier.temporaryName) }
    if listing.hasTemporaryCheckpoint { temporary.append(CheckpointFile.temporaryName) }
    // One that does not fit now might fit again when this log has gone on for a while.
    temporary += listing.checkpoints.filter { $0 != checkpointNumber }.map(CheckpointFile.name)
    for name in temporary {
      try storing { () throws(StorageError) in try directory.remove(name) }
      report.removedFiles.append(name)
    }
  }

  /// Nil when the file does not begin with a sound header.
  private func readableStart(
    _ directory: any StorageDirectory, _ name: String
  ) throws(StoreError) -> (header: SegmentHeader, source: ByteSource)? {
    guard let source = try SegmentOpening.source(directory, name, limit: nil, mapped: false),
      source.length >= SegmentHeader.fixedLength
    else { return nil }
    do throws(StoreError) {
      return (try SegmentOpening.header(source, name), source)
    } catch {
      if error.code == .io || error.code == .limitExceeded { throw error }
      return nil
    }
  }

  private func holdsRecords(
    _ source: ByteSource, _ name: String, _ header: SegmentHeader
  ) throws(StoreError) -> Bool {
    var scanner = SegmentScanner(
      source: source, name: name, seed: header.checksumSeed, offset: header.headerLength)
    if case .record = try scanner.next() { return true }
    return false
  }
}
