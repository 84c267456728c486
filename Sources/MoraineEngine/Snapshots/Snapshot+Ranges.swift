import MoraineFormat
import MoraineStorage

// Ranges of an ordered keyspace at the moment of the snapshot.
extension Store.Snapshot {
  /// Calls the body with the entries of a range, in the order of their keys, until the body returns
  /// false.
  ///
  /// - Throws: `.invalidArgument` when the keyspace was not ordered; the errors of
  ///   ``value(forKey:)``, and those of the body.
  /// - Complexity: O(log n + entries).
  public func scan(
    in range: some KeyRangeConvertible, order: KeyOrder = .ascending,
    _ body: (Store.Entry) throws -> Bool
  ) throws {
    guard let state, var walk = try state.walk(number, range.keyRange, order) else { return }
    var ahead = RecordsAhead()
    while let entry = try state.nextEntry(&walk, &ahead) {
      guard try body(entry) else { return }
    }
  }

  /// Calls the body with the keys of a range, in their order, until the body returns false. Copies
  /// no values.
  ///
  /// - Throws: the errors of ``scan(in:order:_:)``.
  /// - Complexity: O(log n + keys).
  public func scanKeys(
    in range: some KeyRangeConvertible, order: KeyOrder = .ascending,
    _ body: (RawSpan) throws -> Bool
  ) throws {
    try scanKeys(range.keyRange, order, body)
  }

  // The compiler (Swift 6.3) calls functions in a generic one that it inlines elsewhere.
  private func scanKeys(
    _ range: KeyRange, _ order: KeyOrder, _ body: (RawSpan) throws -> Bool
  ) throws {
    guard let state, var walk = try state.walk(number, range, order) else { return }
    var ahead = RecordsAhead()
    guard state.isMapped else {
      while let entry = try state.nextEntry(&walk, &ahead) {
        guard try body(entry.key.bytes.span.bytes) else { return }
      }
      return
    }
    try withExtendedLifetime(state) {
      while let address = try ahead.next(&walk, state.live.trees, state.segments) {
        let record = try state.segments.entryRecord(at: address, of: walk.keyspace)
        ahead.note(record)
        if record.hasExpired(at: state.now) { continue }
        guard try body(record.key.bytes) else { return }
      }
    }
  }

  /// Calls the body with the bytes of the entries of a range, in the order of their keys, until the
  /// body returns false. As ``scanSpans(_:)``, it creates no array for a key or a value.
  ///
  /// - Throws: the errors of ``scan(in:order:_:)``.
  /// - Complexity: O(log n + entries).
  public func scanSpans(
    in range: some KeyRangeConvertible, order: KeyOrder = .ascending,
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    try scanSpans(range.keyRange, order, body)
  }

  private func scanSpans(
    _ range: KeyRange, _ order: KeyOrder, _ body: (RawSpan, RawSpan) throws -> Bool
  ) throws {
    guard let state, var walk = try state.walk(number, range, order) else { return }
    // Another reader may overwrite the buffer of bytes that were read from a file.
    var ahead = RecordsAhead()
    guard state.isMapped else {
      while let entry = try state.nextEntry(&walk, &ahead) {
        guard try body(entry.key.bytes.span.bytes, entry.value.span.bytes) else { return }
      }
      return
    }
    let scratch = ScratchBuffer()
    try withExtendedLifetime(state) {
      while let address = try ahead.next(&walk, state.live.trees, state.segments) {
        let record = try state.segments.entryRecord(at: address, of: walk.keyspace)
        ahead.note(record)
        if record.hasExpired(at: state.now) { continue }
        let value = try state.segments.borrowedValue(of: record, at: address, scratch)
        guard try body(record.key.bytes, value.bytes) else { return }
      }
    }
  }

  /// Returns the entry with the least key of a range; nil when the range is empty.
  ///
  /// - Throws: the errors of ``scan(in:order:_:)``.
  /// - Complexity: O(log n).
  public func first(in range: some KeyRangeConvertible = .all) throws(StoreError) -> Store.Entry? {
    try entry(range.keyRange, .ascending)
  }

  /// Returns the entry with the greatest key of a range; nil when the range is empty. See
  /// ``first(in:)``.
  public func last(in range: some KeyRangeConvertible = .all) throws(StoreError) -> Store.Entry? {
    try entry(range.keyRange, .descending)
  }

  /// Returns the entry with the least key that is greater than a key. See ``first(in:)``.
  public func entry(after key: Key) throws(StoreError) -> Store.Entry? {
    try first(in: KeyRange(from: key.successor))
  }

  /// Returns the entry with the greatest key that is less than a key. See ``first(in:)``.
  public func entry(before key: Key) throws(StoreError) -> Store.Entry? {
    try last(in: ..<key)
  }

  /// Returns the number of keys in a range.
  ///
  /// - Throws: the errors of ``scan(in:order:_:)``.
  /// - Complexity: O(log n); O(keys) when the store has expired entries that it has not deleted.
  public func count(in range: some KeyRangeConvertible) throws(StoreError) -> Int {
    guard let state, var walk = try state.walk(number, range.keyRange, .ascending) else {
      return 0
    }
    guard state.mayHaveExpired else { return walk.remainingCount(state.live.trees) }
    var ahead = RecordsAhead()
    var count = 0
    while try state.nextRecord(&walk, &ahead) { count += 1 }
    return count
  }

  /// Whether the keyspace was ordered.
  var isOrdered: Bool {
    guard let state, let number else { return false }
    return state.live.isOrdered(number)
  }

  /// Returns the first entries of a range, at most `limit`.
  func entries(
    _ range: KeyRange, _ order: KeyOrder, limit: Int
  ) throws(StoreError) -> [Store.Entry] {
    guard let state, var walk = try state.walk(number, range, order) else { return [] }
    var entries: [Store.Entry] = []
    var ahead = RecordsAhead(limit: limit)
    while entries.count < limit, let entry = try state.nextEntry(&walk, &ahead) {
      entries.append(entry)
    }
    return entries
  }

  private func entry(
    _ range: KeyRange, _ order: KeyOrder
  ) throws(StoreError) -> Store.Entry? {
    guard let state, var walk = try state.walk(number, range, order) else { return nil }
    var ahead = RecordsAhead(limit: 1)
    return try state.nextEntry(&walk, &ahead)
  }
}

extension SnapshotState {
  /// Returns a walk over a range; nil when the range is empty.
  ///
  /// - Parameter keyspace: nil when nothing had been written to the keyspace.
  func walk(
    _ keyspace: UInt16?, _ range: KeyRange, _ order: KeyOrder
  ) throws(StoreError) -> RangeWalk? {
    guard let keyspace else { return nil }
    guard live.isOrdered(keyspace) else {
      throw StoreError(
        .invalidArgument, "the keyspace is not ordered; open it with orderedKeyspace(named:)")
    }
    return try reading { () throws(StoreError) in
      try RangeWalk(
        range, order, live.trees, live.trees.root(keyspace), in: keyspace, segments)
    }
  }

  fileprivate func nextEntry(
    _ walk: inout RangeWalk, _ ahead: inout RecordsAhead
  ) throws(StoreError) -> Store.Entry? {
    try reading { () throws(StoreError) in
      while let address = try ahead.next(&walk, live.trees, segments) {
        let record = try segments.entryRecord(at: address, of: walk.keyspace)
        ahead.note(record)
        if record.hasExpired(at: now) { continue }
        return try segments.entry(of: record, at: address)
      }
      return nil
    }
  }

  /// Whether the store had records that had expired.
  fileprivate var mayHaveExpired: Bool {
    segments.order.contains { segments.views[$0].earliestExpiry <= now }
  }

  /// Moves a walk past the next record that has not expired.
  ///
  /// - Returns: false at the end of the range.
  fileprivate func nextRecord(
    _ walk: inout RangeWalk, _ ahead: inout RecordsAhead
  ) throws(StoreError) -> Bool {
    try reading { () throws(StoreError) in
      while let address = try ahead.next(&walk, live.trees, segments) {
        let record = try segments.entryRecord(at: address, of: walk.keyspace)
        ahead.note(record)
        if !record.hasExpired(at: now) { return true }
      }
      return false
    }
  }
}
