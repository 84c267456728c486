import MoraineFormat
import MoraineStorage

extension EngineState {
  func publisher() -> ManifestPublisher {
    ManifestPublisher(directory: directory, pipeline: pipeline)
  }

  /// What the manifest would say now.
  func nextManifest() -> Manifest {
    var next = manifest
    next.generation += 1
    next.lastSequence = SequenceNumber(rawValue: lastSequence)
    next.createdMilliseconds = Machine.wallMilliseconds()
    next.segments = (0..<table.count).compactMap { slot in
      let info = table.infos[slot]
      return info.isDropped ? nil : info.entry(table[slot])
    }
    if let active {
      next.watermarkSegment = table.infos[active.slot].number.rawValue
      // What the log itself has marked. The pipeline's own figure may still be the last segment's.
      next.watermarkOffset = UInt64(place.markedOffset)
      next.digest = StateDigest()
    } else {
      next.watermarkSegment = 0
      next.watermarkOffset = 0
      next.digest = digest
    }
    return next
  }

  /// Writes the footer of the active segment; it takes no more records.
  ///
  /// - Returns: what is still to be done on the committing thread.
  mutating func sealActive() throws(StoreError) -> SealWork? {
    guard let sealed = active else { return nil }
    let slot = sealed.slot
    if !table.infos[slot].flags.contains(.sealed) {
      let info = table[slot]
      let footer = SegmentFooter(
        recordCount: info.recordCount, firstSequence: SequenceNumber(rawValue: info.firstSequence),
        lastSequence: SequenceNumber(rawValue: info.lastSequence),
        wallMilliseconds: Machine.wallMilliseconds(), digest: digest)
      try appendSystemRecord(.footer, footer.encoded())
      table.infos[slot].flags.insert(.sealed)
      // Nothing may come behind a footer, even if the next segment cannot be born yet.
      active?.limit = 0
    }
    return SealWork(file: sealed.file, lengthBytes: UInt64(table[slot].end))
  }
}

/// Cuts a full segment to its length and makes it durable.
struct SealWork: Sendable {
  let file: any StorageFile
  let lengthBytes: UInt64

  func run(_ pipeline: CommitPipeline) throws(StoreError) {
    do throws(StorageError) {
      try file.truncate(to: lengthBytes)
      try file.synchronize(.full)
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
  }
}
