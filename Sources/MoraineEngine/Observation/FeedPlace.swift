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
  /// Number of records that a window should have.
  var windowCount = 1 << 16
  /// The iterator does not need deletes up to this number, because it began without any contents.
  var deletesNotNeededThrough: UInt64 = 0

  init(sequence: UInt64, deletesNotNeededThrough: UInt64 = 0) {
    self.sequence = sequence
    self.deletesNotNeededThrough = deletesNotNeededThrough
  }
}

/// The places of those records of a clustered segment whose sequence numbers lie in a window.
///
/// The records lie in the order of their keys, so each window reads the whole segment once. The
/// window is so wide that most segments need few of them.
private struct SequenceWindow {
  /// Width of the widest window, in windows without gaps.
  private static let mostGaps: UInt64 = 4

  private let end: UInt64
  private let width: Int
  private(set) var first: UInt64
  /// Offset of the record of each number from ``first`` on; 0 where the segment has none.
  private var offsets: [UInt32] = []
  /// The lowest number after the window.
  private var following = UInt64.max
  /// Offset of the next record to read.
  private var offset = 0
  private(set) var isRead = false

  /// - Parameters:
  ///   - sequence: the last sequence number that is not wanted.
  ///   - count: number of records that a window should have.
  init(of view: SegmentView, after sequence: UInt64, count: Int) {
    precondition(count > 0, "a window has no room for a record")
    assert(sequence < view.lastSequence, "a segment without wanted records is read")
    first = max(sequence + 1, view.firstSequence)
    end = view.lastSequence + 1
    // Records that are gone leave gaps between the numbers.
    let gaps = (view.lastSequence &- view.firstSequence) / max(1, view.recordCount)
    width = count * Int(max(1, min(Self.mostGaps, gaps)))
    begin(at: first, view)
  }

  private mutating func begin(at sequence: UInt64, _ view: SegmentView) {
    first = sequence
    let count = Int(clamping: min(UInt64(width), end - sequence))
    offsets = Array(repeating: 0, count: count)
    (following, offset, isRead) = (.max, view.firstOffset, false)
  }

  /// Reads records, and counts their bytes down.
  mutating func read(
    _ slot: Int, _ keyspace: UInt16?, _ table: borrowing SegmentTable, _ left: inout Int
  ) throws(StoreError) {
    while offset < table[slot].operationsEnd {
      guard left > 0 else { return }
      let address = Address(slot: slot, offset: offset)
      let header = try table.entryRecord(at: address).header
      defer { offset += aligned(header.length) }
      left -= header.length
      guard header.kind.isOperation, keyspace ?? header.keyspace == header.keyspace,
        header.sequence >= first
      else { continue }
      let index = header.sequence - first
      if index < offsets.count {
        offsets[Int(index)] = UInt32(truncatingIfNeeded: offset)
      } else {
        following = min(following, header.sequence)
      }
    }
    isRead = true
  }

  /// Returns the next record after a sequence number; nil at the end of the window.
  func next(after sequence: UInt64) -> (sequence: UInt64, offset: Int)? {
    assert(isRead, "a window is used before it was read")
    var index = sequence < first ? 0 : Int(clamping: sequence - first + 1)
    while index < offsets.count {
      if offsets[index] != 0 { return (first + UInt64(index), Int(offsets[index])) }
      index += 1
    }
    return nil
  }

  /// Moves on to the records after the window.
  ///
  /// - Returns: false when there are none.
  mutating func advance(_ view: SegmentView) -> Bool {
    guard following < end else { return false }
    begin(at: following, view)
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
    for slot in log.table.order where log.table[slot].lastSequence > place.sequence {
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
      while let next = window.next(after: place.sequence) {
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
        left.bytes -= header.length
        left.count -= 1
        place.sequence = next.sequence
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
