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
    let lower = try Self.seek(range.lowerBound, pages, root, source) ?? pages.start(root)
    let upper = try Self.seek(range.upperBound, pages, root, source) ?? pages.end(root)
    // The bounds may have the wrong order in the range itself, and in a forged tree.
    guard lower.precedes(upper) else { return nil }
    (cursor, end) = order == .ascending ? (lower, upper) : (upper, lower)
    self.order = order
  }

  private static func seek<Pages: TreePages & ~Copyable, Source: TreeKeySource & ~Copyable>(
    _ bound: Key?, _ pages: borrowing Pages, _ root: TreeRoot, _ source: borrowing Source
  ) throws(StoreError) -> TreeCursor? {
    guard let bound else { return nil }
    return try bound.bytes.withBytes { (bytes) throws(StoreError) in
      try pages.seek(TreeKey(bytes), root, source)
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
  /// The leaf that the walk has reached.
  var leaf: Int { cursor.leaf }

  /// Returns the address of a later entry of the leaf that the walk has reached; nil when that leaf
  /// has no such entry. The entry may lie after the end of the range.
  ///
  /// - Parameter count: number of entries between the walk and the wanted one.
  @inline(__always)
  func address<Pages: TreePages & ~Copyable>(
    ahead count: Int, _ pages: borrowing Pages
  ) -> Address? {
    pages.address(cursor, order == .ascending ? count : -1 &- count)
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

extension RecordSource where Self: ~Copyable {
  /// Returns the record of an entry, verified.
  @inline(__always)
  func entryRecord(at address: Address) throws(StoreError) -> RecordReference {
    let record = try record(at: address)
    try verify(record, at: address)
    return record
  }

  /// Returns the record of an entry of a range, verified.
  @inline(__always)
  func entryRecord(
    at address: Address, of keyspace: UInt16?
  ) throws(StoreError) -> RecordReference {
    let record = try entryRecord(at: address)
    guard record.header.keyspace == keyspace, record.header.kind.effect == .sets else {
      throw .indexDamaged("a tree names a record that is no value of its keyspace", nil)
    }
    return record
  }
}
