import MoraineFormat
import MoraineStorage

/// A walk over the entries of a range of an ordered keyspace, in the order of their keys.
struct RangeWalk {
  private var cursor: TreeCursor
  /// The place where the walk ends.
  private let end: TreeCursor
  private let order: KeyOrder
  let keyspace: UInt16

  /// - Returns: nil when the range is empty.
  /// - Throws: the errors of reading the records that decide where the range begins and ends.
  /// - Complexity: O(log n).
  init?<Pages: TreePages & ~Copyable, Source: TreeKeySource & ~Copyable>(
    _ range: KeyRange, _ order: KeyOrder, _ pages: borrowing Pages, _ root: TreeRoot,
    in keyspace: UInt16, _ source: borrowing Source
  ) throws(StoreError) {
    self.keyspace = keyspace
    guard root.hasPage else { return nil }
    // In a tree of a checkpoint, only the nodes that the range needs were validated. Beside a
    // bound, the edge of the tree must not be read.
    let isForward = order == .ascending
    let lower =
      try Self.seek(range.lowerBound, pages, root, following: isForward ? .ascending : nil, source)
      ?? pages.start(root)
    let upper =
      try Self.seek(range.upperBound, pages, root, following: isForward ? nil : .descending, source)
      ?? pages.end(root)
    // The bounds may have the wrong order in the range itself, and in a forged tree.
    guard lower.precedes(upper) else { return nil }
    (cursor, end) = order == .ascending ? (lower, upper) : (upper, lower)
    self.order = order
  }

  private static func seek<Pages: TreePages & ~Copyable, Source: TreeKeySource & ~Copyable>(
    _ bound: Key?, _ pages: borrowing Pages, _ root: TreeRoot, following: KeyOrder?,
    _ source: borrowing Source
  ) throws(StoreError) -> TreeCursor? {
    guard let bound else { return nil }
    return try bound.bytes.withBytes { (bytes) throws(StoreError) in
      try pages.seek(TreeKey(bytes), root, following: following, source)
    }
  }

  /// Returns the address of the next entry's record; nil at the end of the range.
  @inline(__always)
  mutating func next<Pages: TreePages & ~Copyable>(_ pages: borrowing Pages) -> Address? {
    guard hasNext(pages) else { return nil }
    return order == .ascending ? pages.next(&cursor) : pages.previous(&cursor)
  }

  /// Returns whether the range has another entry. Moves from the edge of a leaf to the next leaf.
  @inline(__always)
  mutating func hasNext<Pages: TreePages & ~Copyable>(_ pages: borrowing Pages) -> Bool {
    if cursor.leaf == end.leaf { return isBeforeEnd }
    let isInside =
      order == .ascending
      ? cursor.position < TreeLeaf(pages.page(cursor.leaf)).count : cursor.position > 0
    return isInside || enterLeaf(pages)
  }

  /// Whether the walk has not reached the end in the end's leaf.
  private var isBeforeEnd: Bool {
    order == .ascending ? cursor.position < end.position : cursor.position > end.position
  }

  private mutating func enterLeaf<Pages: TreePages & ~Copyable>(_ pages: borrowing Pages) -> Bool {
    guard pages.moveToLeaf(&cursor, isForward: order == .ascending) else { return false }
    return cursor.leaf == end.leaf ? isBeforeEnd : true
  }

  /// Returns the number of entries that the walk has not passed yet.
  ///
  /// - Complexity: O(log n).
  func remainingCount<Pages: TreePages & ~Copyable>(_ pages: borrowing Pages) -> Int {
    abs(pages.rank(end) - pages.rank(cursor))
  }
}

extension RangeWalk {
  /// Returns the entries of the range in the leaf that the walk has reached, or in the next one,
  /// from the walk's place on, and moves the walk past them. Returns nil at the end of the range.
  mutating func nextLeaf<Pages: TreePages & ~Copyable>(
    _ pages: borrowing Pages
  ) -> LeafEntries? {
    guard hasNext(pages) else { return nil }
    let count = remainingInLeaf(pages)
    let isForward = order == .ascending
    let first = isForward ? cursor.position : cursor.position - 1
    let leaf = TreeLeaf(pages.page(cursor.leaf))
    cursor.skip(isForward ? count : -count)
    return LeafEntries(leaf, first: first, count: count, isForward: isForward)
  }

  /// Moves two ascending walks, of two states of one tree, past entries that lie in the same place
  /// of the same page. A page that a snapshot has is never changed, so these entries are the same.
  mutating func skipCommon<Pages: TreePages & ~Copyable, Others: TreePages & ~Copyable>(
    _ pages: borrowing Pages, _ other: inout RangeWalk, _ others: borrowing Others
  ) {
    assert(order == .ascending && other.order == .ascending, "a walk goes the other way")
    let page = pages.page(cursor.leaf)
    guard cursor.position == other.cursor.position, page == others.page(other.cursor.leaf)
    else { return }
    let count = min(remainingInLeaf(pages), other.remainingInLeaf(others))
    guard count > 0 else { return }
    cursor.skip(count)
    other.cursor.skip(count)
  }

  /// Returns the number of entries of the reached leaf that the walk has not passed yet.
  func remainingInLeaf<Pages: TreePages & ~Copyable>(_ pages: borrowing Pages) -> Int {
    if cursor.leaf == end.leaf { return abs(end.position - cursor.position) }
    return order == .ascending
      ? TreeLeaf(pages.page(cursor.leaf)).count - cursor.position : cursor.position
  }
}

/// The addresses of entries of one leaf, in the order of a walk. They are valid until a page of the
/// tree changes.
struct LeafEntries {
  /// The place of the first entry's address; nil when there is none.
  private var place: UnsafeRawPointer?
  /// The distance from an address to the next one.
  private let step: Int
  private(set) var count: Int

  /// No entries.
  init() { (place, step, count) = (nil, 0, 0) }

  /// - Parameters:
  ///   - first: position of the first entry in the leaf.
  ///   - isForward: whether the second entry is the one after the first.
  init(_ leaf: TreeLeaf, first: Int, count: Int, isForward: Bool) {
    let last = isForward ? first + count - 1 : first - count + 1
    precondition(
      count > 0 && min(first, last) >= 0 && max(first, last) < leaf.count,
      "entries lie outside of their leaf")
    place = UnsafeRawPointer(leaf.addressPlace(first))
    step = isForward ? TreeLeaf.addressBytes : -TreeLeaf.addressBytes
    self.count = count
  }

  /// Returns the address of an entry; 0 is the first one.
  @inline(__always)
  subscript(_ index: Int) -> Address {
    assert(index >= 0 && index < count, "the leaf has no such entry")
    return TreeLeaf.loadAddress(at: place.unsafelyUnwrapped + step &* index)
  }

  /// Removes the first entry, and returns its address.
  @inline(__always)
  mutating func removeFirst() -> Address {
    let address = self[0]
    place = place.unsafelyUnwrapped + step
    count &-= 1
    return address
  }
}

extension RecordSource where Self: ~Copyable {
  /// Returns the record of an entry, verified.
  @inline(__always)
  func entryRecord(at address: Address) throws(StoreError) -> RecordReference {
    let record = try record(at: address)
    try verify(record, at: address)
    return record
  }

  /// Returns the record of an entry of a range, verified.
  // With `@inline(__always)` a scan calls this function, and it returns the record in memory, which
  // the scan copies.
  @_transparent
  func entryRecord(
    at address: Address, of keyspace: UInt16?
  ) throws(StoreError) -> RecordReference {
    // Nearly all entries.
    if let record = namedPut(at: address), record.header.keyspace == keyspace,
      isIntact(record, at: address)
    {
      return record
    }
    return try otherEntryRecord(at: address, of: keyspace)
  }

  /// Returns the record at an address when it is in memory, and a put of a named keyspace without
  /// another optional field; nil when ``record(at:)`` must read it. Its checksum is not verified.
  @_transparent
  func namedPut(at address: Address) -> RecordReference? {
    guard address.slot < count, let base = views[address.slot].base else { return nil }
    let available = views[address.slot].end &- address.offset
    guard available >= RecordHeader.fixedLength else { return nil }
    let start = UnsafeRawPointer(base + address.offset)
    let length = RecordHeader.length(at: start)
    guard length >= RecordHeader.fixedLength, length <= available,
      let header = RecordHeader.parseNamedPut(start, length: length)
    else { return nil }
    return RecordReference(base: start, header: header)
  }

  /// Returns the record of an entry of a range that is read from a file, verified, or throws the
  /// reason why there is no such record.
  @inline(never)
  private func otherEntryRecord(
    at address: Address, of keyspace: UInt16?
  ) throws(StoreError) -> RecordReference {
    let record = try entryRecord(at: address)
    try checkIsValue(record, of: keyspace)
    return record
  }
}
