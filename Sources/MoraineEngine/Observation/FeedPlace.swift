import MoraineFormat

/// The progress of an iterator.
struct FeedPlace {
  /// The last sequence number that the iterator has seen.
  var sequence: UInt64
  /// The segment in which the next read begins. It is used only while that segment exists.
  var segment: SegmentNumber?
  var offset = 0
  /// The records of the segment in the order of their sequence numbers, where they lie in the order
  /// of their keys.
  fileprivate var window: SequenceWindow?
  /// Number of records that a window has room for. While it is read, it may hold twice as many.
  var windowCount = 1 << 15
  /// The iterator does not need deletes up to this number, because it began without any contents.
  var deletesNotNeededThrough: UInt64 = 0

  /// Number of bytes in which the window keeps the places of records; for tests.
  var windowBytes: Int { window?.bytes ?? 0 }

  init(sequence: UInt64, deletesNotNeededThrough: UInt64 = 0) {
    self.sequence = sequence
    self.deletesNotNeededThrough = deletesNotNeededThrough
  }
}

/// The offsets of the records of a clustered segment that have the lowest sequence numbers after
/// the feed's place.
///
/// The records lie in the order of their keys, so each window reads the whole segment once.
private struct SequenceWindow {
  private struct Entry {
    let sequence: UInt64
    let offset: Int
  }

  private let count: Int
  /// The entries that the steps of the reading have found. Each step adds an array of its own,
  /// because a step changes a copy of the feed's place, and must not copy all entries.
  private var found: [[Entry]] = []
  private var foundCount = 0
  /// After the reading: the window in the order of the sequence numbers.
  private var entries: [Entry] = []
  /// The window contains no record with this number or a higher one, because its room was used for
  /// lower numbers.
  private var end = UInt64.max
  /// Numbers up to this one are not wanted.
  private var sequence: UInt64
  /// While the segment is read: the offset of the next record to read.
  private var offset: Int
  /// The first entry that was not returned.
  private var position = 0
  private(set) var isRead = false

  /// - Parameters:
  ///   - sequence: the last sequence number that is not wanted.
  ///   - count: number of records that the window has room for.
  init(of view: SegmentView, after sequence: UInt64, count: Int) {
    precondition(count > 0, "a window has no room for a record")
    assert(sequence < view.lastSequence, "a segment without wanted records is read")
    self.sequence = sequence
    self.count = count
    offset = view.firstOffset
  }

  /// Reads records, and counts their bytes down.
  mutating func read(
    _ slot: Int, _ keyspace: UInt16?, _ table: borrowing SegmentTable, _ left: inout Int
  ) throws(StoreError) {
    var new: [Entry] = []
    // A copy that is exactly as large as its contents.
    defer { found.append(new.map(\.self)) }
    while offset < table[slot].operationsEnd {
      guard left > 0 else { return }
      let address = Address(slot: slot, offset: offset)
      let header = try table.entryRecord(at: address).header
      defer { offset += aligned(header.length) }
      left -= header.length
      guard header.kind.isOperation, keyspace ?? header.keyspace == header.keyspace,
        header.sequence > sequence, header.sequence < end
      else { continue }
      new.append(Entry(sequence: header.sequence, offset: offset))
      foundCount += 1
      guard foundCount == 2 * count else { continue }
      found.append(new)
      new = takeLowest()
      foundCount = new.count
    }
    found.append(new)
    new = []
    entries = takeLowest()
    (found, foundCount, isRead) = ([], 0, true)
  }

  /// Removes all entries that were found, and returns those that the window has room for.
  private mutating func takeLowest() -> [Entry] {
    var lowest = found.flatMap(\.self)
    found = []
    lowest.sort { $0.sequence < $1.sequence }
    guard lowest.count > count else { return lowest }
    end = lowest[count].sequence
    // Without a copy, the window would keep the memory of all that was found.
    return Array(lowest.prefix(count))
  }

  /// Number of bytes in which the places are kept.
  var bytes: Int {
    (found.reduce(entries.capacity) { $0 + $1.capacity }) * MemoryLayout<Entry>.stride
  }

  /// The next record of the window; nil at its end.
  var next: (sequence: UInt64, offset: Int)? {
    assert(isRead, "a window is used before it was read")
    guard position < entries.count else { return nil }
    return (entries[position].sequence, entries[position].offset)
  }

  /// Moves past ``next``.
  mutating func consume() {
    position += 1
    assert(position <= entries.count, "a window has no such entry")
  }

  /// Moves on to the records after the window.
  ///
  /// - Returns: false when there are none.
  mutating func advance(_ view: SegmentView) -> Bool {
    guard end != .max, let last = entries.last else { return false }
    (sequence, end, offset, position, isRead) = (last.sequence, .max, view.firstOffset, 0, false)
    entries = []
    return true
  }
}

/// The limits of one step over the log.
struct FeedLimits {
  /// Number of operations.
  var count: Int
  /// Bytes of the log.
  var bytes: Int
}

extension EngineState {
  /// Returns the next operations of the log in the order of their sequence numbers, and moves the
  /// place past them. Their checksums were verified.
  ///
  /// The segments hold them in this order: compaction merges only neighbours, and records keep
  /// their numbers. Inside a clustered segment the records lie in the order of their keys.
  ///
  /// - Parameters:
  ///   - keyspace: nil for all keyspaces.
  ///   - end: the last sequence number that is wanted. The place reaches it when the operations
  ///     through this number are all returned.
  /// - Returns: at most as many as the limits allow. An empty array may mean that this part of the
  ///   log has no operation of the keyspace.
  func nextOperations(
    _ place: inout FeedPlace, keyspace: UInt16?, through end: UInt64, _ limits: FeedLimits
  ) throws(StoreError) -> [Address] {
    var result: [Address] = []
    var left = limits
    for slot in log.table.feedOrder where log.table[slot].lastSequence > place.sequence {
      if place.sequence >= end { break }
      if place.segment != log.table.infos[slot].number {
        place.segment = log.table.infos[slot].number
        place.offset = log.table[slot].firstOffset
        place.window = nil
      }
      let isDone =
        log.table.infos[slot].isClustered
        ? try readClustered(slot, &place, keyspace, end, &left, &result)
        : try readRising(slot, &place, keyspace, end, &left, &result)
      guard isDone else { return result }
    }
    // An operation that failed has used its sequence number.
    place.sequence = max(place.sequence, min(end, log.lastSequence))
    return result
  }

  /// Reads a segment whose sequence numbers rise.
  ///
  /// - Returns: whether nothing wanted is left in the segment.
  private func readRising(
    _ slot: Int, _ place: inout FeedPlace, _ keyspace: UInt16?, _ end: UInt64,
    _ left: inout FeedLimits, _ result: inout [Address]
  ) throws(StoreError) -> Bool {
    while place.offset < log.table[slot].operationsEnd {
      guard left.bytes > 0, left.count > 0 else { return false }
      let address = Address(slot: slot, offset: place.offset)
      let header = try log.table.entryRecord(at: address).header
      if header.sequence > end {
        place.sequence = end
        return true
      }
      place.offset += aligned(header.length)
      left.bytes -= header.length
      guard header.kind.isOperation, header.sequence > place.sequence
      else { continue }
      place.sequence = header.sequence
      guard keyspace ?? header.keyspace == header.keyspace else { continue }
      left.count -= 1
      result.append(address)
    }
    return true
  }

  /// Reads a segment in the order of keys.
  ///
  /// - Returns: whether nothing wanted is left in the segment.
  private func readClustered(
    _ slot: Int, _ place: inout FeedPlace, _ keyspace: UInt16?, _ end: UInt64,
    _ left: inout FeedLimits, _ result: inout [Address]
  ) throws(StoreError) -> Bool {
    let view = log.table[slot]
    var window =
      place.window
      ?? SequenceWindow(of: view, after: place.sequence, count: place.windowCount)
    // While this function changes the window, the place must not refer to its memory.
    place.window = nil
    defer { place.window = window }
    while true {
      if !window.isRead {
        try window.read(slot, keyspace, log.table, &left.bytes)
        guard window.isRead else { return false }
      }
      while let next = window.next {
        if next.sequence > end {
          place.sequence = end
          return true
        }
        guard left.bytes > 0, left.count > 0 else { return false }
        let address = Address(slot: slot, offset: next.offset)
        // The window may have been read long ago, and the file may contain other bytes by now.
        let header = try log.table.entryRecord(at: address).header
        guard header.sequence == next.sequence else {
          throw log.table.damaged(address, "a record changed after it was read")
        }
        guard next.sequence > place.sequence else {
          throw log.table.damaged(
            address, "the sequence number \(next.sequence) occurs twice in the segment")
        }
        left.bytes -= header.length
        left.count -= 1
        place.sequence = next.sequence
        window.consume()
        result.append(address)
      }
      guard window.advance(view) else { break }
    }
    place.sequence = max(place.sequence, min(end, view.lastSequence))
    return true
  }

  /// Returns a record of ``nextOperations(_:keyspace:through:_:)``, verified.
  func operation(at address: Address) throws(StoreError) -> RecordReference {
    let record = try log.table.record(at: address)
    // Without a mapping, these bytes were read again.
    if log.table[address.slot].base == nil { try log.table.verify(record, at: address) }
    return record
  }
}
