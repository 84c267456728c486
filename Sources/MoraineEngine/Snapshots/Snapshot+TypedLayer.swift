import MoraineFormat

/// A place in the records of a keyspace at the moment of a snapshot, in the order of the log.
package struct SnapshotWalk: Sendable {
  /// Nil when nothing had been written to the keyspace.
  fileprivate var walk: LogWalk?
}

extension Store.Snapshot {
  /// Returns the entry with a key; nil when the key did not exist. Throws the errors of
  /// ``value(forKey:)``.
  package func entry(forKey key: Key) throws(StoreError) -> Store.Entry? {
    try versionedValue(forKey: key).map {
      Store.Entry(keyspace: number ?? 0, key: key, sequence: $0.sequence, value: $0.value)
    }
  }

  /// Whether entries of the store expire.
  package var hasExpiries: Bool {
    guard let state else { return false }
    return state.segments.order.contains { state.segments.views[$0].earliestExpiry != .max }
  }

  /// Returns the time at which an entry ends, in milliseconds since 1970; nil when it does not end,
  /// or did not exist. Throws the errors of ``value(forKey:)``.
  package func expiry(forKey key: Key) throws(StoreError) -> UInt64? {
    guard let state, let number, hasExpiries else { return nil }
    return try key.bytes.withBytes { (bytes) throws(StoreError) in
      try state.reading { () throws(StoreError) in
        let hash = state.segments.hash(bytes, number)
        guard let found = try state.found(bytes, number, hash: hash) else { return nil }
        try state.segments.verify(found.record, at: found.address)
        return found.record.expiryMilliseconds
      }
    }
  }

  /// Returns the first entries of a range of an ordered keyspace, at most `limit`.
  package func entries(
    in range: KeyRange, order: KeyOrder = .ascending, limit: Int
  ) throws(StoreError) -> [Store.Entry] {
    // A keyspace that nothing was written to is not ordered either.
    isOrdered ? try entries(range, order, limit: limit) : []
  }

  /// Returns the place before the first record of the keyspace.
  package func walk() -> SnapshotWalk {
    guard let state, let number else { return SnapshotWalk(walk: nil) }
    return SnapshotWalk(
      walk: LogWalk(keyspace: number, slots: state.segments.order, now: state.now))
  }

  /// Returns the next records, and moves the place past them.
  ///
  /// - Parameters:
  ///   - limit: the most records.
  ///   - bytes: the length of the values after which no further record is returned.
  /// - Returns: none at the end.
  package func next(
    _ place: inout SnapshotWalk, limit: Int, bytes: Int
  ) throws(StoreError) -> [Store.Entry] {
    guard let state, var walk = place.walk else { return [] }
    var entries: [Store.Entry] = []
    var total = 0
    while entries.count < limit, total < bytes, let entry = try state.next(&walk) {
      entries.append(entry)
      total += entry.value.count
    }
    place.walk = walk
    return entries
  }
}

extension KeyRange {
  /// Returns the part of the range that a walk in an order reaches after a key.
  package func after(_ key: Key, _ order: KeyOrder) -> KeyRange {
    switch order {
    case .ascending: intersection(KeyRange(from: key.successor))
    case .descending: intersection(KeyRange(upTo: key))
    }
  }

  /// Returns the part of the range that a walk in an order reaches at a key and after it.
  package func beginning(with key: Key, _ order: KeyOrder) -> KeyRange {
    switch order {
    case .ascending: intersection(KeyRange(from: key))
    case .descending: intersection(KeyRange(upTo: key.successor))
    }
  }
}
