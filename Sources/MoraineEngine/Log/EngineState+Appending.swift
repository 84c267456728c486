import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  /// Whether `count` bytes of records fit where the next record goes.
  @inline(__always)
  func hasRoom(for count: Int) -> Bool {
    place.slot >= 0 && table[place.slot].end &+ count <= place.roomEnd
  }

  /// The same for operations that may need more space than they give back.
  @inline(__always)
  func hasRoom(forPuts count: Int) -> Bool {
    place.slot >= 0 && table[place.slot].end &+ count <= place.putEnd
  }

  /// What must be waited for until `count` bytes fit.
  func room(for count: Int) -> Room {
    if hasRoom(for: count) { return .enough }
    guard let active, !active.hasFooter, active.allocated != nil else { return .rotate }
    let end = table[active.slot].end + count
    if end <= active.hardEnd { return .extendAhead }
    return end + ActiveSegment.reservedBytes > active.limit ? .rotate : .extend
  }

  /// Puts a record behind the last one. Room was made before; nothing here waits.
  ///
  /// - Throws: `.noSpace` or `.io` in positional mode. The bytes are then taken back; if that fails
  ///   too, the store is poisoned.
  /// - Returns: where the record is.
  // With `@inline(__always)` a put calls it nonetheless, and hands the draft over in memory: 70
  // instructions of 2,800.
  @_transparent
  mutating func append(_ draft: RecordDraft) throws(StoreError) -> Address {
    precondition(place.slot >= 0, "append without an active segment")
    let view = table[place.slot]
    let end = view.end
    if let base = view.base, place.isMapped {
      if draft.length < Self.writtenLength {
        draft.write(to: base + end, at: UInt64(truncatingIfNeeded: end), seed: view.seed)
      } else {
        appendByCall(draft, to: base + end, at: end)
      }
    } else {
      try appendToFile(draft, at: end)
    }
    let length = aligned(draft.length)
    table[place.slot].end = end &+ length
    appendedBytes &+= UInt64(truncatingIfNeeded: length)
    return Address(slot: place.slot, offset: end)
  }

  /// From this length on a record is written by a call into a mapped segment too: that fills the
  /// file's pages many at a time, and a mapping takes a fault for each.
  private static var writtenLength: Int { 64 << 10 }

  private mutating func appendByCall(
    _ draft: RecordDraft, to target: UnsafeMutableRawPointer, at end: Int
  ) {
    guard let active else { return }
    place.hasCalled = true
    do throws(StorageError) {
      try write(draft, at: end, to: active)
    } catch {
      // The space is there, and the mapping takes the same bytes. A device that fails says so again
      // when they are synced.
      draft.write(to: target, at: UInt64(end), seed: table[active.slot].seed)
    }
  }

  /// From this length on a record goes to its file in two parts, so that no second copy of a large
  /// value is made. A failure between the parts leaves what a failure within one would: a record
  /// whose checksum does not match, which the caller cuts off or overwrites.
  private static var piecewiseLength: Int { 1 << 20 }

  private func write(
    _ draft: RecordDraft, at end: Int, to active: ActiveSegment
  ) throws(StorageError) {
    guard draft.length >= Self.piecewiseLength else {
      return try active.file.write(encoded(draft, at: end, for: active), at: UInt64(end))
    }
    let head = draft.encodedHead(at: UInt64(end), seed: table[active.slot].seed)
    try active.file.write(draft.stored, at: UInt64(end + head.count))
    let padding = aligned(draft.length) - draft.length
    if padding > 0 {
      let zeros = [UInt8](repeating: 0, count: padding)
      try zeros.withBytes { (bytes) throws(StorageError) in
        try active.file.write(bytes, at: UInt64(end + draft.length))
      }
    }
    // Last: until then the place reads as "nothing here".
    try head.withBytes { (bytes) throws(StorageError) in
      try active.file.write(bytes, at: UInt64(end))
    }
  }

  /// The record as it will lie in the file; valid until the next one.
  private func encoded(
    _ draft: RecordDraft, at end: Int, for active: ActiveSegment
  ) -> UnsafeRawBufferPointer {
    let total = aligned(draft.length)
    let buffer = writeScratch.reserve(total)
    guard let base = buffer.baseAddress else { return UnsafeRawBufferPointer(buffer) }
    // All else is written.
    (base + total - 4).storeBytes(of: 0, as: UInt32.self)
    draft.write(to: base, at: UInt64(end), seed: table[active.slot].seed)
    return UnsafeRawBufferPointer(buffer)
  }

  private func appendToFile(_ draft: RecordDraft, at end: Int) throws(StoreError) {
    guard let active else { return }
    do throws(StorageError) {
      try write(draft, at: end, to: active)
    } catch {
      // Nothing was written, so nothing is to be cut off, which would take a descriptor too.
      if error.lacksDescriptor, draft.length < Self.piecewiseLength { throw StoreError(error) }
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
    let durable = Int(truncatingIfNeeded: pipeline.durableOffset.load(ordering: .relaxed))
    guard durable > place.markedOffset else { return }
    try appendSyncMark(durable)
  }

  private mutating func appendSyncMark(_ durable: Int) throws(StoreError) {
    let mark = SyncMark(
      durableOffset: UInt64(durable), wallMilliseconds: Machine.wallMilliseconds(),
      digest: digest)
    try appendSystemRecord(.syncMark, mark.encoded())
    place.markedOffset = durable
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
    let end = UInt64(truncatingIfNeeded: table[place.slot].end)
    pipeline.publish(sequence: lastSequence, offset: end)
  }

  @inline(__always)
  func count(_ sequence: UInt64, in slot: Int) {
    table[slot].recordCount &+= 1
    if table[slot].firstSequence == 0 { table[slot].firstSequence = sequence }
    table[slot].lastSequence = sequence
  }
}
