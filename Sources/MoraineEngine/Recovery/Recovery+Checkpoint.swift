import MoraineFormat
import MoraineStorage

/// Beginning with what a checkpoint knows.
///
/// It may be older than the last compaction. What it says of segments that are still listed holds:
/// they have not changed. Entries of segments that are gone are taken out; what was live in them was
/// copied into segments that the checkpoint does not know, or hidden by something newer, and a delete
/// that hides a record leaves the log only after the record's segment has. So replaying what is not
/// covered, never letting an older record take a newer one's place, comes to the log's own state.
extension Recovery {
  func adoptCheckpoint(_ state: inout EngineState) throws(StoreError) {
    guard let checkpoint else { return }
    let listed = Set(state.manifest.segments.map(\.number))
    let gone = checkpoint.header.segments.filter { !listed.contains($0.number) }
    let kept = checkpoint.header.segments.filter { listed.contains($0.number) }
    guard let index = HashIndex(checkpoint) else { throw damaged() }
    state.index = index
    if !gone.isEmpty {
      guard state.index.admitAll() else { throw damaged() }
      state.index.removeAll(in: Set(gone.map { Int($0.slot) }))
    }
    for segment in kept {
      state.digest.add(segment.digest)
      state.liveBytes &+= segment.liveBytes
    }
    guard !gone.isEmpty || state.digest == checkpoint.header.digest else { throw damaged() }
    state.table.keepSlots(Set(kept.map { Int($0.slot) }))
  }

  private func damaged() -> StoreError {
    .corrupted("the index checkpoint is damaged", CheckpointFile.temporaryName, at: 0)
  }

  /// Takes in a sealed segment that the checkpoint covers as a whole.
  ///
  /// - Returns: false when it does not.
  func addCovered(
    _ entry: Manifest.Segment, _ state: inout EngineState
  ) throws(StoreError) -> Bool {
    guard let covered = covered[entry.number], covered.endOffset == entry.lengthBytes else {
      return false
    }
    let (slot, _, _) = try SegmentOpening.add(
      entry, &state, length: Int(clamping: entry.lengthBytes), covered: covered)
    state.table.infos[slot].flags = entry.flags
    guard covered.recordCount == entry.recordCount,
      covered.firstSequence == entry.firstSequence.rawValue,
      covered.lastSequence == entry.lastSequence.rawValue
    else { throw damaged() }
    return true
  }
}

extension Opener {
  /// The newest checkpoint that can be begun with; nil when there is none.
  ///
  /// - Parameter problem: what kept one from being read. It is only a shortcut: the log is read then,
  ///   and if the disk is to blame, that will say so.
  func loadCheckpoint(
    _ directory: any StorageDirectory, _ listing: Listing, _ manifest: Manifest,
    _ problem: inout StoreError?
  ) -> CheckpointPages? {
    for number in listing.checkpoints.sorted(by: >) {
      do throws(StoreError) {
        let pages = try CheckpointFile.open(
          CheckpointFile.name(number), directory, mapped: configuration.ioMode == .mapped)
        guard let pages, pages.header.storeID == manifest.storeID,
          pages.header.epoch <= manifest.epoch,
          pages.header.lastSequence <= manifest.lastSequence.rawValue || !manifest.isClean
        else { continue }
        return pages
      } catch {
        problem = error
      }
    }
    return nil
  }
}
