import MoraineFormat
import MoraineStorage

/// A store at one moment, as its backup will have it.
struct BackupSource: Sendable {
  let directory: any StorageDirectory
  /// Keeps the segments: their mappings, and files that compaction is done with.
  let state: SnapshotState
  /// All of its segments count as sealed; what was appended to last has no footer, and ends where
  /// the log ended.
  let manifest: Manifest
  /// The slots of its segments, in its order.
  let slots: [Int]

  init(_ engine: inout EngineState, _ state: SnapshotState) throws(StoreError) {
    directory = engine.directory
    self.state = state
    var manifest = engine.nextManifest()
    (manifest.watermarkSegment, manifest.watermarkOffset) = (0, 0)
    manifest.digest = engine.digest
    manifest.isBackup = true
    manifest.segments = []
    var slots: [Int] = []
    for slot in engine.table.order {
      let view = engine.table[slot]
      var info = engine.table.infos[slot]
      if !info.flags.contains(.sealed) {
        guard view.recordCount > 0 else { continue }
        info.flags.insert(.sealed)
        if try !engine.table.endsWithFooter(slot) { info.flags.insert(.cut) }
      }
      manifest.segments.append(info.entry(view))
      slots.append(slot)
    }
    self.manifest = manifest
    self.slots = slots
  }

  func piece(_ index: Int) -> SegmentCarrier.Piece {
    let entry = manifest.segments[index]
    return SegmentCarrier.Piece(
      name: entry.number.fileName, lengthBytes: Int(entry.lengthBytes),
      isSealed: !entry.flags.contains(.cut),
      base: state.segments.views[slots[index]].base.map { UnsafeRawPointer($0) })
  }
}

extension SegmentTable {
  /// Whether a segment's log ends with its footer.
  func endsWithFooter(_ slot: Int) throws(StoreError) -> Bool {
    let place = views[slot].end - SegmentFooter.recordLength
    guard place >= views[slot].firstOffset else { return false }
    let address = Address(slot: slot, offset: place)
    let start: UnsafeRawPointer
    if let base = views[slot].base {
      start = UnsafeRawPointer(base + place)
    } else {
      start = try load(address, count: SegmentFooter.recordLength)
    }
    // Any bytes may lie there, when no record begins at the place.
    guard RecordHeader.length(at: start) == SegmentFooter.recordLength,
      let header = RecordHeader.parse(start, length: SegmentFooter.recordLength),
      header.kind == .footer
    else { return false }
    return RecordHeader.checksum(
      of: start, length: header.length, at: UInt64(place), seed: views[slot].seed)
      == RecordHeader.storedChecksum(at: start)
  }
}
