import MoraineFormat
import MoraineStorage

/// What the holder of the writer's lock does with the segment that others have appended to.
extension EngineState {
  /// Makes the shared tail the segment to append to; none when it takes no more.
  mutating func adoptTail(_ snapshot: SharedPage.Snapshot) throws(StoreError) {
    guard let slot = openSlot, snapshot.tailLimit > 0,
      table.infos[slot].number.rawValue == snapshot.tailSegment
    else {
      active = nil
      return
    }
    let name = table.fileName(slot)
    let isKnown = active?.slot == slot
    let (file, length) = try storing { () throws(StorageError) in
      let file =
        if isKnown { active?.file } else { try directory.openFile(name, .readWrite) }
      return (file, Int(clamping: try file?.lengthBytes() ?? 0))
    }
    guard let file else { throw .corrupted("the file vanished", name, at: 0) }
    let mapping = table.infos[slot].mapping
    if mapping == nil { table.lend(file, for: slot) }
    let marked = isKnown ? place.markedOffset : table[slot].firstOffset
    // A process that writes without a mapping allocates nothing ahead. What a mapping writes behind
    // the file's end is lost, and the footer asks for no more room than is kept for it.
    let hasRoom = length >= table[slot].end + ActiveSegment.reservedBytes
    active = ActiveSegment(
      slot: slot, file: file, mapping: mapping, allocated: mapping != nil && hasRoom ? length : nil,
      limit: snapshot.tailLimit, step: Self.smallestAllocation, softEnd: .max)
    place.markedOffset = marked
    pipeline.follow(
      file: file, sequence: lastSequence, offset: UInt64(table[slot].end),
      durable: sealedSequence, marked: UInt64(marked))
  }

  /// Takes in what a writer that died has left behind the published end of the log: whole units
  /// count, for it may be that they do (P7).
  ///
  /// - Returns: what is to be made durable before the segment is listed as sealed; nil when there
  ///   is no open segment.
  mutating func takeOverTail() throws(StoreError) -> OpenSegment? {
    active = nil
    guard let slot = openSlot else { return nil }
    let name = table.fileName(slot)
    let length = try storing { () throws(StorageError) in
      Int(clamping: try directory.openFile(name, .read)?.lengthBytes() ?? 0)
    }
    if table.infos[slot].mapping != nil { try widen(slot, to: length) }
    let published = table[slot].end
    let result = try replayOn(slot, length: length)
    let end = max(published, result.validEnd)
    table[slot].end = end
    // It may have been published without a manifest that says so: on a full disk perhaps.
    let hasFooter = try scanner(slot, length: end).hasFooter(before: end)
    // The rest may be proven; to copy it costs little.
    let watermark =
      manifest.watermarkSegment == table.infos[slot].number.rawValue ? manifest.watermarkOffset : 0
    let proven = min(max(Int(clamping: watermark), table[slot].firstOffset), end)
    return OpenSegment(
      slot: slot, name: name, seed: table[slot].seed, start: table[slot].firstOffset, end: end,
      provenEnd: proven, hasFooter: hasFooter, isEmpty: table[slot].recordCount == 0)
  }

  /// Lists as sealed what ``takeOverTail()`` has found.
  mutating func settleTail(_ segment: OpenSegment) {
    if segment.isEmpty {
      table.drop(segment.slot)
    } else {
      table.infos[segment.slot].flags.insert(.sealed)
      if !segment.hasFooter { table.infos[segment.slot].flags.insert(.cut) }
    }
  }
}
