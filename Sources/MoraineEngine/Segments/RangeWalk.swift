import MoraineFormat
import MoraineStorage

/// A walk over the entries of a range of an ordered keyspace, in the order of their keys.
struct RangeWalk {
  private var cursor: TreeCursor
  /// Number of entries that the walk has not passed yet.
  private(set) var left: Int
  private let order: KeyOrder

  /// - Returns: nil when the range is empty.
  /// - Throws: the errors of reading the records that decide where the range begins and ends.
  /// - Complexity: O(log n).
  init?<Pages: TreePages & ~Copyable, Table: RecordSource & ~Copyable>(
    _ range: KeyRange, _ order: KeyOrder, _ pages: borrowing Pages, _ root: TreeRoot,
    _ table: borrowing Table
  ) throws(StoreError) {
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

extension RecordSource where Self: ~Copyable {
  /// Returns the record of an entry of a range, verified.
  @inline(__always)
  func entryRecord(at address: Address) throws(StoreError) -> RecordReference {
    let record = try record(at: address)
    try verify(record, at: address)
    return record
  }
}
