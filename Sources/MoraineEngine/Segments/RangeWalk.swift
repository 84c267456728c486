import MoraineFormat
import MoraineStorage

/// A walk over the entries of a range of an ordered keyspace, in the order of their keys.
struct RangeWalk {
  private var cursor: TreeCursor
  /// Number of entries that the walk has not passed yet.
  private(set) var left: Int
  private let order: KeyOrder
  let keyspace: UInt16

  /// - Returns: nil when the range is empty.
  /// - Throws: the errors of reading the records that decide where the range begins and ends.
  /// - Complexity: O(log n).
  init?<Pages: TreePages & ~Copyable, Table: RecordSource & ~Copyable>(
    _ range: KeyRange, _ order: KeyOrder, _ pages: borrowing Pages, _ root: TreeRoot,
    in keyspace: UInt16, _ table: borrowing Table
  ) throws(StoreError) {
    self.keyspace = keyspace
    guard root.hasPage else { return nil }
    let start = try Self.cursor(range.lowerBound, pages.start(root), pages, root, table)
    let end = try Self.cursor(range.upperBound, pages.end(root), pages, root, table)
    left = pages.rank(end) - pages.rank(start)
    guard left > 0 else { return nil }
    cursor = order == .ascending ? start : end
    self.order = order
  }

  private static func cursor<Pages: TreePages & ~Copyable, Table: RecordSource & ~Copyable>(
    _ bound: Key?, _ none: TreeCursor, _ pages: borrowing Pages, _ root: TreeRoot,
    _ table: borrowing Table
  ) throws(StoreError) -> TreeCursor {
    guard let bound else { return none }
    return try bound.bytes.withBytes { (bytes) throws(StoreError) in
      try pages.seek(TreeKey(bytes), root, table)
    }
  }

  /// Returns the address of the next entry's record.
  @inline(__always)
  mutating func next<Pages: TreePages & ~Copyable>(_ pages: borrowing Pages) -> Address? {
    guard left > 0 else { return nil }
    left &-= 1
    let address = order == .ascending ? pages.next(&cursor) : pages.previous(&cursor)
    precondition(address != nil, "a tree has fewer entries than its branches count")
    return address
  }
}

extension RangeWalk {
  /// The leaf that the walk has reached.
  var leaf: Int { cursor.leaf }

  /// Returns the address of a later entry of the leaf that the walk has reached; nil when that leaf
  /// or the range has no such entry.
  ///
  /// - Parameter count: number of entries between the walk and the wanted one.
  @inline(__always)
  func address<Pages: TreePages & ~Copyable>(
    ahead count: Int, _ pages: borrowing Pages
  ) -> Address? {
    guard count < left else { return nil }
    return pages.address(cursor, order == .ascending ? count : -1 &- count)
  }

  /// Moves two ascending walks, of two states of one tree, past entries that lie in the same place
  /// of the same page. A page that a snapshot has is never changed, so these entries are the same.
  mutating func skipCommon<Pages: TreePages & ~Copyable, Others: TreePages & ~Copyable>(
    _ pages: borrowing Pages, _ other: inout RangeWalk, _ others: borrowing Others
  ) {
    assert(order == .ascending && other.order == .ascending, "a walk goes the other way")
    let page = pages.page(cursor.leaf)
    guard left > 0, other.left > 0, cursor.position == other.cursor.position,
      page == others.page(other.cursor.leaf)
    else { return }
    let count = min(TreeLeaf(page).count - cursor.position, min(left, other.left))
    guard count > 0 else { return }
    cursor.skip(count)
    other.cursor.skip(count)
    left -= count
    other.left -= count
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
