import MoraineFormat

/// Records of ordered keyspaces that a compaction has read and not copied yet. The compaction
/// copies them in the order of their keys, so that a walk over a range reads neighbours in the log.
///
/// A record of a mapped input stays where it is, and its checksum is verified again when it is
/// copied. The buffer holds the bytes of the other records, up to a limit: without a mapping, an
/// output consists of several parts, each in the order of its keys.
struct KeyOrderBuffer: ~Copyable {
  /// A record that waits, and the bytes that decide its place.
  private struct Entry {
    let base: UnsafeRawPointer
    let key: TreeKey
    let candidate: CompactionCandidate
    let values: SegmentValues
  }

  /// The place of an entry among the others. Comparing two heads reads no key.
  private struct Place {
    let keyspace: UInt16
    /// The eight bytes of the key after those that all keys of the keyspace share, as a number.
    let head: UInt64
    let key: TreeKey
    let sequence: UInt64
    let index: Int

    static func precedes(_ first: Place, _ second: Place) -> Bool {
      if first.keyspace != second.keyspace { return first.keyspace < second.keyspace }
      if first.head != second.head { return first.head < second.head }
      if first.key.precedes(second.key) { return true }
      if second.key.precedes(first.key) { return false }
      return first.sequence < second.sequence
    }
  }

  private let heldLimitBytes: Int
  private var entries: [Entry] = []
  private var held: UnsafeMutableRawBufferPointer
  private var heldBytes = 0
  private var order: [Place] = []
  private var nextPlace = 0
  /// Length of the records that wait, with their padding, in bytes.
  private(set) var waitingBytes = 0

  /// - Parameter heldLimitBytes: the number of bytes of records to hold in memory, where the inputs
  ///   are not mapped. A longer record is held alone.
  init(heldLimitBytes: Int = 8 << 20) {
    precondition(heldLimitBytes > 0, "a buffer can hold no record")
    self.heldLimitBytes = heldLimitBytes
    held = .allocate(byteCount: 0, alignment: 16)
  }

  deinit { held.deallocate() }

  var isEmpty: Bool { nextPlace == entries.count }

  /// Whether the buffer has room for a record.
  func hasRoom(for candidate: CompactionCandidate) -> Bool {
    guard order.isEmpty else { return false }
    return candidate.isMapped || entries.isEmpty
      || heldBytes + aligned(candidate.length) <= heldLimitBytes
  }

  /// Adds a record, whose checksum was verified.
  mutating func add(
    _ record: RecordReference, _ candidate: CompactionCandidate, _ values: SegmentValues
  ) {
    precondition(hasRoom(for: candidate), "a record is added to a full buffer")
    assert(candidate.isOrdered, "a record without an order waits for its turn")
    var base = record.base
    if !candidate.isMapped { base = hold(record, candidate.length) }
    let key = TreeKey(RecordReference(base: base, header: record.header).key)
    entries.append(Entry(base: base, key: key, candidate: candidate, values: values))
    waitingBytes += aligned(candidate.length)
  }

  private mutating func hold(_ record: RecordReference, _ length: Int) -> UnsafeRawPointer {
    let size = aligned(length)
    // Pointers of entries lead into the memory once it holds a record. Entries of mapped inputs,
    // which may come first, do not.
    if heldBytes == 0 {
      let wanted = max(size, heldLimitBytes)
      if held.count != wanted {
        held.deallocate()
        held = .allocate(byteCount: wanted, alignment: 16)
      }
    }
    guard let start = held.baseAddress, heldBytes + size <= held.count else {
      fatalError("a buffer holds more bytes than it has room for")
    }
    let place = start + heldBytes
    place.copyMemory(from: record.base, byteCount: length)
    heldBytes += size
    return UnsafeRawPointer(place)
  }

  /// Passes the next record in the order of the keys to the body. Records of one key come in the
  /// order of their sequence numbers.
  ///
  /// - Returns: false when no record is left; then others may be added.
  /// - Throws: `.corrupted` when the file now contains other bytes than those that were read, and
  ///   the errors of the body.
  mutating func writeNext(
    _ body: (RecordReference, CompactionCandidate, SegmentValues) throws(StoreError) -> Void
  ) throws(StoreError) -> Bool {
    if order.isEmpty { sort() }
    guard nextPlace < order.count else {
      clear()
      return false
    }
    let entry = entries[order[nextPlace].index]
    let candidate = entry.candidate
    if candidate.isMapped {
      try entry.values.verify(
        entry.base, length: candidate.length, at: candidate.address.offset)
    }
    guard let header = RecordHeader.parse(entry.base, length: candidate.length) else {
      throw entry.values.changed(at: candidate.address.offset)
    }
    nextPlace += 1
    waitingBytes -= aligned(candidate.length)
    try body(RecordReference(base: entry.base, header: header), candidate, entry.values)
    return true
  }

  private mutating func clear() {
    assert(waitingBytes == 0, "a record that was read is not copied")
    entries.removeAll(keepingCapacity: true)
    order.removeAll(keepingCapacity: true)
    (nextPlace, heldBytes) = (0, 0)
  }

  private mutating func sort() {
    var shared: [UInt16: (key: TreeKey, count: Int)] = [:]
    for index in entries.indices {
      let (key, keyspace) = (entries[index].key, entries[index].candidate.keyspace)
      guard let known = shared[keyspace] else {
        shared[keyspace] = (key, key.count)
        continue
      }
      if let count = known.key.shared(with: key), count < known.count {
        shared[keyspace]?.count = count
      }
    }
    order.reserveCapacity(entries.count)
    for index in entries.indices {
      let (key, candidate) = (entries[index].key, entries[index].candidate)
      let start = shared[candidate.keyspace]?.count ?? 0
      order.append(
        Place(
          keyspace: candidate.keyspace,
          head: UInt64(key.head(after: start)) << 32 | UInt64(key.head(after: start + 4)),
          key: key, sequence: candidate.sequence, index: index))
    }
    order.sort(by: Place.precedes)
  }
}
