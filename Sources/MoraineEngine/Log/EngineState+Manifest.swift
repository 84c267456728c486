import MoraineFormat
import MoraineStorage

extension EngineState {
  /// From now on nothing is written unless the names in the directory lead to this store's files.
  ///
  /// - Parameter link: what ties the store to the other processes that have it open.
  func watchOver(_ link: SharedLink?) {
    if configuration.isReadOnly { return }
    pipeline.watchOver(
      StorePresence(
        directory, common: (lock.map { [$0] } ?? []) + (link?.files ?? []), manifest: manifest,
        isShared: configuration.sharing == .shared))
  }

  func publisher() -> ManifestPublisher {
    ManifestPublisher(directory: directory, pipeline: pipeline)
  }

  /// What the manifest would say now.
  ///
  /// - Parameter sealing: the segment that has its footer but is not durable yet, and how far its
  ///   log has marked itself durable. Until it is, it vouches for no more than that.
  func nextManifest(
    sealing: (segment: ActiveSegment, markedOffset: Int)? = nil
  ) -> Manifest {
    var next = manifest
    next.generation += 1
    next.lastSequence = SequenceNumber(rawValue: lastSequence)
    next.createdMilliseconds = Machine.wallMilliseconds()
    next.segments = table.order.map { table.infos[$0].entry(table[$0]) }
    if let slot = sealing?.segment.slot ?? active?.slot {
      next.watermarkSegment = table.infos[slot].number.rawValue
      // What the log itself has marked. The pipeline's own figure may still be the last segment's.
      next.watermarkOffset = UInt64(sealing?.markedOffset ?? place.markedOffset)
      next.digest = StateDigest()
    } else {
      next.watermarkSegment = 0
      next.watermarkOffset = 0
      next.digest = digest
    }
    return next
  }

  /// Takes a manifest that was published. Numbers may have been used up since it was made.
  mutating func adoptManifest(_ next: Manifest) {
    let number = max(manifest.nextSegmentNumber, next.nextSegmentNumber)
    manifest = next
    manifest.nextSegmentNumber = number
  }

  func directoryHandle() -> any StorageDirectory { directory }

  /// Writes the footer of the active segment; it takes no more records.
  mutating func appendFooter() throws(StoreError) {
    guard let active, !active.hasFooter else { return }
    let view = table[active.slot]
    let footer = SegmentFooter(
      recordCount: view.recordCount, firstSequence: SequenceNumber(rawValue: view.firstSequence),
      lastSequence: SequenceNumber(rawValue: view.lastSequence),
      wallMilliseconds: Machine.wallMilliseconds(), digest: digest)
    try appendSystemRecord(.footer, footer.encoded())
    self.active?.hasFooter = true
  }

  /// What is still to be done with a segment that has its footer, on the committing thread.
  func sealWork(_ segment: ActiveSegment) -> SealWork {
    SealWork(
      number: table.infos[segment.slot].number, file: segment.file, mapping: segment.mapping,
      lengthBytes: UInt64(table[segment.slot].end),
      lastSequence: table[segment.slot].lastSequence, lock: lock)
  }
}

extension EngineState {
  /// Takes the active segment, which has its footer, out of use.
  mutating func sealActive() -> SealWork? {
    guard let active else { return nil }
    let work = sealWork(active)
    table.infos[active.slot].flags.insert(.sealed)
    self.active = nil
    return work
  }

  /// What the manifest will say when the segment is durable.
  mutating func manifestAfterSealing(_ segment: ActiveSegment) -> Manifest {
    table.infos[segment.slot].flags.insert(.sealed)
    manifest = nextManifest()
    return manifest
  }
}
