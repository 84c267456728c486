import MoraineFormat

/// The live records of a store or of a snapshot: what an iteration over the log asks.
protocol LiveRecords: ~Copyable {
  /// Prefetches the memory that a look-up of the hash reads first.
  func prefetch(_ hash: UInt64)
  /// Whether a tree has the entries of a keyspace.
  func isOrdered(_ keyspace: UInt16) -> Bool
  /// Whether a record of a keyspace without order is live.
  func holds(_ address: Address, _ hash: UInt64) -> Bool
  /// Whether a record of an ordered keyspace is live.
  func holdsOrdered(_ address: Address, _ record: RecordReference) -> Bool
}

/// An iteration over all live records of a keyspace, in the order of the log.
struct LogWalk {
  let keyspace: UInt16
  /// Records that expire at this time or before are left out; milliseconds since 1970.
  private let now: UInt64
  private let slots: [Int]
  private var position = 0
  private var cursor: LogCursor?

  /// - Parameters:
  ///   - slots: the slots of the segments, in the order of the log. All pages of the index were
  ///     validated.
  ///   - now: the time by which records expire, in milliseconds since 1970.
  init(keyspace: UInt16, slots: [Int], now: UInt64) {
    self.keyspace = keyspace
    self.now = now
    self.slots = slots
  }

  /// Returns the next live record that has not expired. Its checksum was verified. The record is
  /// valid until the next call, or as long as its segment is mapped.
  @inline(__always)
  mutating func nextRecord<Live: LiveRecords & ~Copyable, Table: RecordSource & ~Copyable>(
    _ live: borrowing Live, _ table: borrowing Table
  ) throws(StoreError) -> (address: Address, record: RecordReference)? {
    while true {
      if let found = try cursor?.nextRecord(live, table) {
        if found.record.hasExpired(at: now) { continue }
        return found
      }
      if position == slots.count { return nil }
      cursor = LogCursor(slot: slots[position], keyspace: keyspace)
      position += 1
    }
  }

  mutating func next<Live: LiveRecords & ~Copyable, Table: RecordSource & ~Copyable>(
    _ live: borrowing Live, _ table: borrowing Table
  ) throws(StoreError) -> Store.Entry? {
    guard let (address, record) = try nextRecord(live, table) else { return nil }
    return try table.entry(of: record, at: address)
  }
}

/// A position in one segment, which moves over the live puts of the segment.
///
/// The cursor reads some records ahead, so that their index buckets have arrived when it looks the
/// records up. In a segment that contains only live records, it soon stops using the index.
struct LogCursor {
  private static let lookahead = 32
  /// Number of live records in succession after which the cursor determines whether the segment has
  /// a dead one. Reading a few records must not read a whole segment.
  private static let patience = 16 * lookahead

  let slot: Int
  /// Nil for all keyspaces.
  let keyspace: UInt16?
  private let asksAlways: Bool
  private var window: [(address: Address, hash: UInt64, isOrdered: Bool)] = []
  private var position = 0
  private var liveCount = 0
  private var isAllLive = false
  private(set) var offset: Int?

  /// - Parameter asksAlways: whether to look up every record, for a caller that must find out which
  ///   records the index names.
  init(slot: Int, keyspace: UInt16?, asksAlways: Bool = false) {
    self.slot = slot
    self.keyspace = keyspace
    self.asksAlways = asksAlways
    window.reserveCapacity(Self.lookahead)
  }

  /// Returns the next live record, whose checksum was verified; nil at the end of the segment.
  mutating func nextRecord<Live: LiveRecords & ~Copyable, Table: RecordSource & ~Copyable>(
    _ live: borrowing Live, _ table: borrowing Table
  ) throws(StoreError) -> (address: Address, record: RecordReference)? {
    while true {
      if position == window.count {
        if isAllLive { return try nextPut(table) }
        try lookAhead(live, table)
        if window.isEmpty { return nil }
      }
      let (address, hash, isOrdered) = window[position]
      assert(address.slot == slot, "a cursor reads another segment")
      position += 1
      let isHeld =
        isOrdered
        ? live.holdsOrdered(address, try table.entryRecord(at: address))
        : live.holds(address, hash)
      guard isHeld else {
        liveCount = .min
        continue
      }
      liveCount += 1
      if liveCount == Self.patience, !asksAlways { isAllLive = table.isAllLive(slot) }
      let record = try table.record(at: address)
      // Without a mapping, these bytes were read again.
      if table.views[slot].base == nil { try table.verify(record, at: address) }
      return (address, record)
    }
  }

  /// Returns the next put, live or not.
  @inline(__always)
  private mutating func nextPut<Table: RecordSource & ~Copyable>(
    _ table: borrowing Table
  ) throws(StoreError) -> (address: Address, record: RecordReference)? {
    var place = offset ?? table.views[slot].firstOffset
    defer { offset = place }
    while place < table.views[slot].operationsEnd {
      let address = Address(slot: slot, offset: place)
      let record = try table.record(at: address)
      try table.verify(record, at: address)
      place += aligned(record.header.length)
      if record.header.kind.effect == .sets,
        keyspace ?? record.header.keyspace == record.header.keyspace
      {
        return (address, record)
      }
    }
    return nil
  }

  /// Verifies the next records and prefetches their buckets.
  private mutating func lookAhead<Live: LiveRecords & ~Copyable, Table: RecordSource & ~Copyable>(
    _ live: borrowing Live, _ table: borrowing Table
  ) throws(StoreError) {
    assert(position == window.count, "records that were read ahead are skipped")
    window.removeAll(keepingCapacity: true)
    position = 0
    var place = offset ?? table.views[slot].firstOffset
    while place < table.views[slot].operationsEnd, window.count < Self.lookahead {
      let address = Address(slot: slot, offset: place)
      let record = try table.record(at: address)
      try table.verify(record, at: address)
      place += aligned(record.header.length)
      guard record.header.kind.effect == .sets,
        keyspace ?? record.header.keyspace == record.header.keyspace
      else { continue }
      let hash = table.hash(record.key, record.header.keyspace)
      live.prefetch(hash)
      window.append((address, hash, live.isOrdered(record.header.keyspace)))
    }
    offset = place
  }
}

extension RecordSource where Self: ~Copyable {
  func entry(of record: RecordReference, at address: Address) throws(StoreError) -> Store.Entry {
    Store.Entry(
      keyspace: record.header.keyspace, key: Key([UInt8](record.key)),
      sequence: SequenceNumber(rawValue: record.header.sequence),
      value: try value(of: record, at: address),
      expiryMilliseconds: record.expiryMilliseconds ?? 0)
  }

  /// Returns whether all puts of a segment are live. Returns false where the segment is not mapped,
  /// or its bytes make no sense: then iterating over the segment finds out what is wrong.
  ///
  /// - Complexity: O(records), some nanoseconds for each.
  func isAllLive(_ slot: Int) -> Bool {
    let view = views[slot]
    guard let base = view.base else { return false }
    // Besides puts, the segment contains deletes and marks, but not many.
    let others = view.end - view.firstOffset - Int(clamping: view.liveBytes)
    guard others >= 0, others <= view.end / 4 else { return false }
    var putBytes: UInt64 = 0
    var offset = view.firstOffset
    while offset < view.end {
      guard view.end - offset >= RecordHeader.fixedLength else { return false }
      let length = RecordHeader.length(at: base + offset)
      guard length >= RecordHeader.fixedLength, length <= view.end - offset else { return false }
      if RecordHeader.isPut(base + offset) { putBytes &+= UInt64(aligned(length)) }
      offset += aligned(length)
    }
    return putBytes == view.liveBytes
  }
}
