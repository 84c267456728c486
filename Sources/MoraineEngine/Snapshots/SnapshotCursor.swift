import MoraineFormat

extension Store.Snapshot {
  /// Returns a cursor before the first entry of a range of an ordered keyspace.
  ///
  /// - Throws: the errors of ``scan(in:order:_:)``.
  /// - Complexity: O(log n).
  public func cursor(
    in range: some KeyRangeConvertible = .all
  ) throws(StoreError) -> Store.SnapshotCursor {
    Store.SnapshotCursor(state, try state?.bounds(number, range.keyRange))
  }
}

extension Store {
  /// A position in a range of an ordered keyspace, at the moment of a snapshot. It moves in both
  /// directions, and keeps the snapshot alive.
  ///
  /// ```swift
  /// var cursor = try snapshot.cursor(in: .prefix("user/7/"))
  /// try cursor.seek(to: "user/7/m")
  /// while let entry = try cursor.next(), entry.value.count < 100 {}
  /// ```
  public struct SnapshotCursor: Sendable {
    /// Nil when the range is empty.
    private var place: CursorPlace?
    private let state: SnapshotState?

    init(_ state: SnapshotState?, _ place: CursorPlace?) {
      self.state = state
      self.place = place
    }

    /// Number of entries of the range after the cursor. Entries count that had expired and were
    /// not deleted.
    public var remainingCount: Int { place.map { $0.end - $0.rank } ?? 0 }

    /// Returns the entry after the cursor, and moves past it; nil at the end of the range.
    ///
    /// - Throws: `.corrupted`, `.io`. The cursor has then moved, and can go on.
    public mutating func next() throws(StoreError) -> Store.Entry? {
      guard let state else { return nil }
      while let address = place?.next(state) {
        if let entry = try state.entry(at: address, keyspace: place?.keyspace) { return entry }
      }
      return nil
    }

    /// Returns the entry before the cursor, and moves before it; nil at the beginning of the range.
    ///
    /// - Throws: as ``next()``.
    public mutating func previous() throws(StoreError) -> Store.Entry? {
      guard let state else { return nil }
      while let address = place?.previous(state) {
        if let entry = try state.entry(at: address, keyspace: place?.keyspace) { return entry }
      }
      return nil
    }

    /// Moves to the place before the first entry whose key is not less than a key. Outside of the
    /// range, this is the beginning or the end of the range.
    ///
    /// - Throws: `.corrupted`, `.io`. The cursor has then not moved.
    /// - Complexity: O(log n).
    public mutating func seek(to key: Key) throws(StoreError) {
      guard let state, let old = place else { return }
      place = try state.place(old, seeking: key)
    }

    /// Moves before the first entry of the range.
    public mutating func seekToStart() { place?.returnToStart() }

    /// Moves after the last entry of the range.
    public mutating func seekToEnd() { place?.goToEnd() }
  }
}

/// A place in a tree, and the bounds between which it moves.
struct CursorPlace: Sendable {
  let keyspace: UInt16
  private let first: TreeCursor
  private let last: TreeCursor
  private let start: Int
  let end: Int
  private(set) var rank: Int
  private var cursor: TreeCursor

  init(
    keyspace: UInt16, _ first: TreeCursor, _ last: TreeCursor, start: Int, end: Int
  ) {
    self.keyspace = keyspace
    (self.first, self.last, self.start, self.end) = (first, last, start, max(start, end))
    (cursor, rank) = (first, start)
  }

  mutating func next(_ state: SnapshotState) -> Address? {
    guard rank < end, let address = state.live.trees.next(&cursor) else { return nil }
    rank += 1
    return address
  }

  mutating func previous(_ state: SnapshotState) -> Address? {
    guard rank > start, let address = state.live.trees.previous(&cursor) else { return nil }
    rank -= 1
    return address
  }

  mutating func move(to found: TreeCursor, rank newRank: Int) {
    if newRank <= start { return returnToStart() }
    if newRank >= end { return goToEnd() }
    (cursor, rank) = (found, newRank)
  }

  mutating func returnToStart() { (cursor, rank) = (first, start) }

  mutating func goToEnd() { (cursor, rank) = (last, end) }
}

extension SnapshotState {
  /// Returns the place before the first entry of a range; nil when the keyspace has no entry.
  fileprivate func bounds(
    _ keyspace: UInt16?, _ range: KeyRange
  ) throws(StoreError) -> CursorPlace? {
    guard let keyspace else { return nil }
    guard live.isOrdered(keyspace) else {
      throw StoreError(
        .invalidArgument, "the keyspace is not ordered; open it with orderedKeyspace(named:)")
    }
    let root = live.trees.root(keyspace)
    guard root.hasPage else { return nil }
    let first = try range.lowerBound.map { (key) throws(StoreError) in try seek(key, root) }
    let last = try range.upperBound.map { (key) throws(StoreError) in try seek(key, root) }
    let (start, end) = (first ?? live.trees.start(root), last ?? live.trees.end(root))
    return CursorPlace(
      keyspace: keyspace, start, end, start: live.trees.rank(start), end: live.trees.rank(end))
  }

  fileprivate func place(
    _ old: CursorPlace, seeking key: Key
  ) throws(StoreError) -> CursorPlace {
    var place = old
    let found = try seek(key, live.trees.root(old.keyspace))
    place.move(to: found, rank: live.trees.rank(found))
    return place
  }

  private func seek(_ key: Key, _ root: TreeRoot) throws(StoreError) -> TreeCursor {
    try key.bytes.withBytes { (bytes) throws(StoreError) in
      try reading { () throws(StoreError) in
        try live.trees.seek(TreeKey(bytes), root, segments)
      }
    }
  }

  /// Returns the entry at an address; nil when it had expired.
  fileprivate func entry(
    at address: Address, keyspace: UInt16?
  ) throws(StoreError) -> Store.Entry? {
    try reading { () throws(StoreError) in
      let record = try segments.entryRecord(at: address, of: keyspace)
      return record.hasExpired(at: now) ? nil : try segments.entry(of: record, at: address)
    }
  }
}
