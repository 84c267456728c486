import MoraineFormat
import MoraineStorage

/// Beginning with what a checkpoint knows.
///
/// It lies behind the last writer's opening, which removed any other: so it is of this log's own
/// past, and not of a life that a backup has undone. It may be older than the last compaction. What
/// it says of segments that are still listed holds: they have not changed. Entries of segments that
/// are gone are taken out; what was live in them was copied into segments that the checkpoint does
/// not know, or hidden by something newer, and a delete that hides a record leaves the log only
/// after the record's segment has. So replaying what is not covered, never letting an older record
/// take a newer one's place, comes to the log's own state.
extension Recovery {
  func adoptCheckpoint(_ state: inout EngineState) throws(StoreError) {
    guard let checkpoint else { return }
    let listed = Set(state.manifest.segments.map(\.number))
    let gone = checkpoint.header.segments.filter { !listed.contains($0.number) }
    let kept = checkpoint.header.segments.filter { listed.contains($0.number) }
    guard let index = try HashIndex(checkpoint) else { throw damaged() }
    state.index = index
    if !gone.isEmpty {
      guard state.index.admitAll() else { throw damaged() }
      state.index.removeAll(in: Set(gone.map { Int($0.slot) }))
    }
    for segment in kept {
      state.digest.add(segment.digest)
      state.liveBytes &+= segment.liveBytes
    }
    guard !gone.isEmpty || state.digest == checkpoint.header.digest, agrees(state.manifest, kept),
      checkpoint.header.keyspaces?.allSatisfy({ state.keyspaces.contains($0.id) }) ?? true
    else { throw damaged() }
    state.keyspaces.adopt(gone.isEmpty ? checkpoint.header.keyspaces : nil)
    state.table.keepSlots(Set(kept.map { Int($0.slot) }))
  }

  /// Where the last segment that the checkpoint covers ends with a footer, that has the digest of
  /// the same moment.
  private func checkDigest(
    _ opened: SegmentOpening.Opened, _ name: String, _ manifest: Manifest
  ) throws(StoreError) {
    guard let source = opened.source, let header = checkpoint?.header else { return }
    let scanner = SegmentScanner(
      source: source, name: name, seed: opened.header.checksumSeed, offset: opened.start)
    guard let (footer, sequence) = try scanner.footer(before: opened.start),
      sequence == header.lastSequence, sequence > manifest.compactedThrough.rawValue
    else { return }
    guard footer.digest == header.digest else { throw damaged() }
  }

  /// Whether the checkpoint's figures can be those of the segments that the manifest lists; what
  /// costs nothing to find out.
  private func agrees(_ manifest: Manifest, _ kept: [CheckpointHeader.Segment]) -> Bool {
    let entries = manifest.entriesByNumber
    // Of the same moment, if nothing was written since.
    let isOfOneMoment =
      manifest.isClean && kept.count == manifest.segments.count
      && manifest.lastSequence.rawValue == checkpoint?.header.lastSequence
    return kept.allSatisfy { segment in
      guard let entry = entries[segment.number] else { return false }
      let isCompacted = entry.flags.contains(.compacted)
      return
        (segment.cleanedThrough == 0
        || (isCompacted && segment.cleanedThrough <= manifest.compactedThrough.rawValue))
        && (!isOfOneMoment || isCompacted || segment.endOffset != entry.lengthBytes
          || segment.liveBytes == entry.liveBytes)
    }
  }

  private func damaged() -> StoreError {
    .indexDamaged("the index checkpoint is damaged", checkpointNumber.map(CheckpointFile.name))
  }

  /// Takes in every segment that the checkpoint covers, before anything is replayed: what comes
  /// early in the log may be asked for beside an entry of a segment that comes late.
  func openCovered(
    _ state: inout EngineState
  ) throws(StoreError) -> [SegmentNumber: SegmentOpening.Opened] {
    var result: [SegmentNumber: SegmentOpening.Opened] = [:]
    let last = state.manifest.segments.last { covered[$0.number] != nil }?.number
    for entry in state.manifest.segments {
      guard let covered = covered[entry.number] else { continue }
      let actual = Int(clamping: listing.segments[entry.number] ?? 0)
      let length = entry.isSealed ? min(actual, Int(clamping: entry.lengthBytes)) : actual
      var opened = try SegmentOpening.add(
        entry, &state, length: length, covered: covered,
        growingTo: entry.isSealed ? nil : growth(of: entry))
      if entry.number == last { try checkDigest(opened, entry.number.fileName, state.manifest) }
      // There may be thousands, and of most nothing is left to read: neither their windows nor
      // their files stay.
      opened.source?.release()
      if entry.isSealed, opened.start == length { opened.source = nil }
      result[entry.number] = opened
    }
    return result
  }
}

extension Opener {
  /// The newest checkpoint that can be begun with; nil when there is none.
  ///
  /// - Parameter problem: what kept one from being read. It is only a shortcut: the log is read
  ///   then, and if the disk is to blame, that will say so.
  func loadCheckpoint(
    _ directory: any StorageDirectory, _ listing: Listing, _ manifest: Manifest,
    _ problem: inout StoreError?
  ) -> (number: SegmentNumber, pages: CheckpointPages)? {
    let logBytes = listing.segments.values.reduce(0, &+)
    for number in listing.checkpoints.sorted(by: >) {
      do throws(StoreError) {
        let pages = try CheckpointFile.open(
          CheckpointFile.name(number), directory, mapped: configuration.ioMode == .mapped,
          logBytes: logBytes)
        guard let pages, pages.header.storeID == manifest.storeID,
          pages.header.epoch <= manifest.epoch,
          pages.header.lastSequence <= manifest.lastSequence.rawValue || !manifest.isClean,
          // One that was listed once has a number that was given by then.
          pages.header.segments.allSatisfy({ $0.number.rawValue < manifest.nextSegmentNumber })
        else { continue }
        return (number, pages)
      } catch {
        problem = error
      }
    }
    return nil
  }
}
