import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// Whether `count` bytes of records fit where the next record goes.
  @inline(__always)
  func room(for count: Int) -> Room {
    guard let active else { return .rotate }
    let end = table[active.slot].end
    let needed = end &+ count &+ SyncMark.recordLength &+ SegmentFooter.recordLength
    if needed > active.limit { return .rotate }
    guard let allocated = active.allocated else { return .enough }
    return needed <= allocated ? .enough : .extend
  }

  /// Puts a record behind the last one. Room was made before; nothing here waits.
  ///
  /// - Throws: `.noSpace` or `.io` in positional mode. The bytes are then taken back; if that fails
  ///   too, the store is poisoned.
  /// - Returns: where the record is.
  @inline(__always)
  mutating func append(_ draft: RecordDraft) throws(StoreError) -> Address {
    guard let active else { fatalError("append without an active segment") }
    let end = table[active.slot].end
    let length = draft.length
    if let base = table[active.slot].base, active.allocated != nil {
      draft.write(to: base + end, at: UInt64(end), seed: table[active.slot].seed)
    } else {
      try appendToFile(draft, active, at: end)
    }
    table[active.slot].end = end &+ aligned(length)
    return Address(slot: active.slot, offset: end)
  }

  private func appendToFile(
    _ draft: RecordDraft, _ active: ActiveSegment, at end: Int
  ) throws(StoreError) {
    let total = aligned(draft.length)
    let buffer = writeScratch.reserve(total)
    guard let base = buffer.baseAddress else { return }
    base.initializeMemory(as: UInt8.self, repeating: 0, count: total)
    draft.write(to: base, at: UInt64(end), seed: table[active.slot].seed)
    do throws(StorageError) {
      try active.file.write(UnsafeRawBufferPointer(buffer), at: UInt64(end))
    } catch {
      try takeBack(to: end, active, after: error)
    }
  }

  private func takeBack(
    to end: Int, _ active: ActiveSegment, after cause: StorageError
  ) throws(StoreError) {
    do throws(StorageError) {
      try active.file.truncate(to: UInt64(end))
    } catch {
      let failure = StoreError(error)
      pipeline.poison(failure)
      throw failure
    }
    throw StoreError(cause)
  }

  /// Writes down in the log what has become durable since it was last said.
  @inline(__always)
  mutating func appendSyncMarkIfDue() throws(StoreError) {
    guard let active else { return }
    let durable = Int(truncatingIfNeeded: pipeline.durableOffset.load(ordering: .relaxed))
    guard durable > active.markedOffset else { return }
    try appendSyncMark(durable)
  }

  private mutating func appendSyncMark(_ durable: Int) throws(StoreError) {
    let mark = SyncMark(
      durableOffset: UInt64(durable), wallMilliseconds: Machine.wallMilliseconds(),
      digest: digest)
    try appendSystemRecord(.syncMark, mark.encoded())
    active?.markedOffset = durable
  }

  mutating func appendSystemRecord(
    _ kind: RecordKind, _ payload: [UInt8]
  ) throws(StoreError) {
    let empty = UnsafeRawBufferPointer(start: nil, count: 0)
    let sequence = lastSequence
    var failure: StoreError?
    payload.withUnsafeBytes { bytes in
      let draft = RecordDraft(sequence: sequence, kind: kind, key: empty, stored: bytes)
      do throws(StoreError) { _ = try append(draft) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  /// Tells the committing thread how far the log reaches.
  @inline(__always)
  func publish() {
    guard let active else { return }
    pipeline.publish(sequence: lastSequence, offset: UInt64(table[active.slot].end))
  }

  @inline(__always)
  mutating func count(_ sequence: UInt64, in slot: Int) {
    table.infos[slot].recordCount &+= 1
    if table.infos[slot].firstSequence == 0 { table.infos[slot].firstSequence = sequence }
    table.infos[slot].lastSequence = sequence
  }
}
