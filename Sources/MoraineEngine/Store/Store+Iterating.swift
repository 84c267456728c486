import MoraineFormat

extension Store {
  /// Calls the body with every live record, in the order of the log, until it answers false.
  ///
  /// Consistent: nothing else runs on the store meanwhile.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`, and what the body throws.
  /// - Complexity: O(bytes of the log).
  public func forEach(_ body: (Entry) throws -> Bool) throws {
    try checkOpen()
    guard engine != nil else { return }
    for slot in 0..<engine!.table.count where !engine!.table.infos[slot].isDropped {
      var cursor = LogCursor(slot: slot)
      while let entry = try cursor.next(&engine!) {
        guard try body(entry) else { return }
      }
    }
  }
}

/// A place in one segment, moving over its live puts.
struct LogCursor {
  let slot: Int
  private(set) var offset: Int?

  init(slot: Int) {
    self.slot = slot
  }

  /// The next live record from here on; nil at the segment's end.
  mutating func next(_ engine: inout EngineState) throws(StoreError) -> Entry? {
    var place = offset ?? SegmentHeader.fixedLength
    while place < engine.table[slot].end {
      let address = Address(slot: slot, offset: place)
      let record = try engine.table.record(at: address)
      try engine.table.verify(record, at: address)
      let header = record.header
      place += aligned(header.length)
      offset = place
      guard header.kind == .put, header.keyspace == 0 else { continue }
      let key = [UInt8](record.key)
      let value = try engine.table.value(of: record, at: address)
      let isLive = try key.withBytes { (bytes) throws(StoreError) -> Bool in
        guard let found = try engine.find(bytes, 0, hash: engine.hash(bytes, 0)) else {
          return false
        }
        return found.slot.pointee & Address.mask == address.rawValue
      }
      guard isLive else { continue }
      return Entry(
        key: Key(key), sequence: SequenceNumber(rawValue: header.sequence), value: value)
    }
    offset = place
    return nil
  }
}
